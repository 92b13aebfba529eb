// What the list of events says of each.
import type { Event } from '../api/types.ts';
import { precise } from './units.ts';

export function describe(event: Event): string {
  switch (event.kind) {
    case 'lab':
      return event.state;
    case 'asked':
      return `${event.method} ${event.path}${event.body ? ` ${event.body}` : ''}`;
    case 'changed':
      return `${event.change.kind} ${event.change.object}${event.change.text ? `: ${event.change.text}` : ''}`;
    case 'started':
    case 'ready':
      return `${event.name ?? event.program} on ${event.machine}`;
    case 'ended':
      return `${event.name ?? event.program} on ${event.machine}: ${event.error ?? event.code}`;
    case 'wire': {
      const settings = Object.entries(event.settings).map(([key, value]) => `${key} ${plain(value)}`);
      const from = event.from ? ` from ${event.from}` : '';
      return `${event.wire}${from} ${event.up ? 'plugged in' : 'plugged out'}${settings.length ? ', ' + settings.join(' ') : ''}`;
    }
    case 'uplink':
      return `${event.wire}: ${event.error ?? 'works again'}`;
    case 'timed':
      return `${event.line}${event.error ? `: ${event.error}` : ''}`;
    case 'dead':
      return `${event.machines.join(', ')}: ${event.message}\n${event.backtrace.join('\n')}`;
    case 'kernel':
      return event.message;
    case 'log':
      return event.line;
    case 'capture-ended':
      return `${event.capture}: ${event.error}`;
    case 'packet':
      return packet(event);
    case 'breakpoint': {
      const stopped = event.stopped ? `; stopped: ${event.stopped === 'all' ? 'the lab' : 'the machine'}` : '';
      return `${event.breakpoint}, ${event.number}: ${packet(event.packet)}${stopped}`;
    }
    case 'pod-ended':
      return `${event.pod}: ${event.fault}`;
    case 'pod-log':
      return `${event.pod}: ${event.line}`;
    case 'missed':
      return `${event.events} events`;
    case 'progress':
      return `${event.step} ${event.done} of ${event.total}`;
    default:
      return '';
  }
}

interface PacketLike {
  nanoseconds: number;
  end: string;
  what: string;
  reason?: string | null;
  summary: string;
}

function packet({ nanoseconds, end, what, reason, summary }: PacketLike): string {
  return `${precise(nanoseconds)} ${end} ${what}${reason ? ` (${reason})` : ''} ${summary}`;
}

function plain(value: unknown): string {
  return typeof value === 'object' && value ? Object.values(value).map(String).join(' ') : String(value);
}
