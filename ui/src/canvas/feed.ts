// The feed's binary frames, little-endian: a header of 24 bytes, then records.
//
//   header   u8 kind, u8 flags, u16 count, u32 seq, u64 base (ns), u32 missed, u32 one in
//   flight   u32 end, u32 sent - base (ns), u32 arrives - sent (µs), u32 id, u16 length, u8 class, u8 fate, u32 aux
//   counter  u32 end, u32 under way, u64 sent, u64 bytes, u64 lost
//   queue    u32 end, u32 packets

export const HEADER_BYTES = 24;
/** 32-bit words of a record. */
export const WORDS = 6;
export const FLIGHTS = 0;
export const COUNTERS = 1;
export const QUEUES = 2;
export const TIME = 3;
/** Counters of all ends. */
export const KEYFRAME = 4;
const COUNTER_BYTES = 32;
const QUEUE_BYTES = 8;
/** The fate of a packet that arrives; any other never does. */
export const ARRIVES = 0;
/** Whether a packet whose record has this fifth word never arrives. */
export const isLost = (packed: number): boolean => packed >= (ARRIVES + 1) << 24;

export interface Header {
  kind: number;
  flags: number;
  count: number;
  seq: number;
  /** ns of the lab's time. */
  base: bigint;
  missed: number;
  oneIn: number;
}

/** Throws a RangeError for a frame that is shorter than a header. */
export function header(frame: ArrayBuffer): Header {
  const view = new DataView(frame);
  return {
    kind: view.getUint8(0),
    flags: view.getUint8(1),
    count: view.getUint16(2, true),
    seq: view.getUint32(4, true),
    base: view.getBigUint64(8, true),
    missed: view.getUint32(16, true),
    oneIn: view.getUint32(20, true),
  };
}

/** A frame of flights' records as words, as many as are really there. */
export function records(frame: ArrayBuffer): Uint32Array {
  const { count } = header(frame);
  const whole = Math.floor((frame.byteLength - HEADER_BYTES) / (4 * WORDS));
  return new Uint32Array(frame, HEADER_BYTES, WORDS * Math.min(count, whole));
}

/** Records of so many bytes, as many as are really there. */
function each<T>(frame: ArrayBuffer, bytes: number, read: (view: DataView) => T): T[] {
  const { count } = header(frame);
  const whole = Math.min(count, Math.floor((frame.byteLength - HEADER_BYTES) / bytes));
  return Array.from({ length: whole }, (_, place) => read(new DataView(frame, HEADER_BYTES + place * bytes, bytes)));
}

/** What ends have counted, by their numbers. */
export function counters(
  frame: ArrayBuffer,
): [end: number, count: { sent: number; bytes: number; lost: number; underWay: number }][] {
  return each(frame, COUNTER_BYTES, (view) => {
    const long = (at: number) => Number(view.getBigUint64(at, true));
    const count = { sent: long(8), bytes: long(16), lost: long(24), underWay: view.getUint32(4, true) };
    return [view.getUint32(0, true), count];
  });
}

/** How many packets wait at ends. */
export function queues(frame: ArrayBuffer): [end: number, count: number][] {
  return each(frame, QUEUE_BYTES, (view) => [view.getUint32(0, true), view.getUint32(4, true)]);
}

export interface Flight {
  end: number;
  /** ns after the frame's base. */
  sent: number;
  /** µs; the greatest number means that long or longer. */
  lasts: number;
  id: number;
  length: number;
  class: number;
  fate: number;
  aux: number;
}

/** The record at a place in words. */
export function flight(words: Uint32Array, place: number): Flight {
  const at = place * WORDS;
  const packed = words[at + 4]!;
  return {
    end: words[at]!,
    sent: words[at + 1]!,
    lasts: words[at + 2]!,
    id: words[at + 3]!,
    length: packed & 0xffff,
    class: (packed >>> 16) & 0xff,
    fate: packed >>> 24,
    aux: words[at + 5]!,
  };
}

/** A frame of flights, as the daemon makes it: for tests and the bench. */
export function encode(of: Partial<Header>, flights: Flight[]): ArrayBuffer {
  const frame = new ArrayBuffer(HEADER_BYTES + 4 * WORDS * flights.length);
  const view = new DataView(frame);
  view.setUint8(0, of.kind ?? FLIGHTS);
  view.setUint8(1, of.flags ?? 0);
  view.setUint16(2, flights.length, true);
  view.setUint32(4, of.seq ?? 0, true);
  view.setBigUint64(8, of.base ?? 0n, true);
  view.setUint32(16, of.missed ?? 0, true);
  view.setUint32(20, of.oneIn ?? 1, true);
  flights.forEach((one, place) => {
    const at = HEADER_BYTES + 4 * WORDS * place;
    view.setUint32(at, one.end, true);
    view.setUint32(at + 4, one.sent, true);
    view.setUint32(at + 8, one.lasts, true);
    view.setUint32(at + 12, one.id, true);
    view.setUint16(at + 16, one.length, true);
    view.setUint8(at + 18, one.class);
    view.setUint8(at + 19, one.fate);
    view.setUint32(at + 20, one.aux, true);
  });
  return frame;
}
