// Short names of the API's objects, which schema.d.ts has from the control process's own description.
import type { components } from './schema.d.ts';

type Schemas = components['schemas'];
export type LabSummary = Schemas['LabSummary'];
export type LabStatus = Schemas['LabStatus'];
export type KeptTerminal = Schemas['KeptTerminal'];
export type Lab = Schemas['Lab'];
export type Clock = Schemas['Clock'];
export type Machine = Schemas['Machine'];
export type MachineSummary = Schemas['MachineSummary'];
export type MachineSpec = Schemas['MachineSpec'];
export type WireSpec = Schemas['WireSpec'];
export type Settings = Schemas['Settings'];
export type Wire = Schemas['Wire'];
export type Program = Schemas['Program'];
export type Breakpoints = Schemas['Breakpoints'];
export type Breakpoint = Schemas['Breakpoint'];
export type Packet = Schemas['Packet'];
/** An event: the description leaves a packet's kind away. */
export type Event =
  | Extract<Schemas['Event2'], { kind: string }>
  | ({ lab: string; time: number; actor?: string | null; kind: 'packet' } & Packet);
export type Statistics = Schemas['Statistics'];
export type Applied = Schemas['Applied'];
export type Capture = Schemas['Capture'];
export type CapturedPacket = Schemas['CapturedPacket'];
export type PacketDetail = Schemas['PacketDetail'];
export type PacketField = Schemas['PacketField'];
export type Series = Schemas['Series2'];
export type OpenSession = Schemas['OpenSession'];
export type Problem = Schemas['Problem'];
export type RunSummary = Schemas['RunSummary'];
export type Run = Schemas['Run'];
export type RunTimeline = Schemas['RunTimeline'];
export type RunTopology = Schemas['RunTopology'];
export type RunState = Schemas['RunState'];
export type RunEvent = Schemas['RunEvent'];
export type RunDifference = Schemas['RunDifference'];
export type Explored = Schemas['Explored'];
export type ExploredSummary = Schemas['ExploredSummary'];
export type ExploredRun = Schemas['ExploredRun'];
export type ExploredEvent = Schemas['ExploredEvent'];
export type ExploredChoice = Schemas['ExploredChoice'];
export type ExploredViolation = Schemas['ExploredViolation'];
