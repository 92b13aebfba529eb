import { expect, test } from 'vitest';
import { classify, flow, rate, span } from './packet.ts';

test('times_and_rates_of_lab_files', () => {
  expect(['5ms', '1.5 s', '20us', '2min', '0', 0, undefined].map(span)).toEqual([5e6, 1.5e9, 2e4, 120e9, 0, 0, 0]);
  expect(['10mbit', '64 kbit', '1Gbit/s', '2kbps', '0', undefined].map(rate)).toEqual([1e7, 64e3, 1e9, 16e3, 0, 0]);
});

test.each([
  ['ARP, Request who-has 10.0.0.2', 1],
  ['IP 10.0.0.1 > 10.0.0.2: ICMP echo request', 2],
  ['IP 10.0.0.1.56924 > 10.0.0.2.5001: TCP [S], seq 1', 3],
  ['IP 10.0.0.1.56924 > 10.0.0.2.5001: TCP [.], ack 1', 4],
  ['IP 10.0.0.1.53 > 10.0.0.2.5001: UDP, length 1', 6],
  ['IP 10.0.0.1 > 224.0.0.5: OSPFv2, Hello', 7],
])('%#_class_of_a_packet', (summary, place) => {
  expect(classify(summary)).toBe(place);
});

test('both_directions_of_a_flow_have_one_number_and_others_another', () => {
  const there = flow('IP 10.0.0.1.56924 > 10.0.0.2.5001: TCP [S], seq 1');
  expect(flow('IP 10.0.0.2.5001 > 10.0.0.1.56924: TCP [S.], seq 7')).toBe(there);
  expect(flow('IP 10.0.0.1.56925 > 10.0.0.2.5001: TCP [S], seq 1')).not.toBe(there);
  expect(there).toBeGreaterThan(0);
  expect(flow('ARP, Request who-has 10.0.0.2')).toBe(0);
});
