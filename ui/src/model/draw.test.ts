import { expect, test } from 'vitest';
import type { Lab } from '../api/types.ts';
import { join, remove } from './draw.ts';

test('a_wire_gives_both_machines_an_interface_and_addresses_of_a_network_of_their_own', () => {
  const spec: Lab = { machines: { a: { interfaces: { eth0: { wire: 'w', addresses: ['10.0.0.1/24'] } } }, b: {} } };
  const { wire, lines } = join(spec, 'a', 'b', true);
  expect(wire).toBe('a-b');
  expect(spec.machines!.a!.interfaces!.eth1).toEqual({ wire: 'a-b', addresses: ['10.0.1.1/24'] });
  expect(spec.machines!.b!.interfaces!.eth0).toEqual({ wire: 'a-b', addresses: ['10.0.1.2/24'] });
  expect(lines).toContain('wireup b eth0 a-b');
  expect(join(spec, 'a', 'b', false).wire).toBe('a-b-1');
});

test('machines_at_one_switch_are_in_one_network', () => {
  const spec: Lab = { machines: { a: {}, b: {} }, switches: { sw: {} } };
  join(spec, 'a', 'sw', true);
  join(spec, 'sw', 'b', true);
  expect(spec.machines).toEqual({
    a: { interfaces: { eth0: { switch: 'sw', addresses: ['10.0.0.1/24'] } } },
    b: { interfaces: { eth0: { switch: 'sw', addresses: ['10.0.0.2/24'] } } },
  });
});

test('a_machine_goes_with_its_wires_and_the_interfaces_at_their_other_ends', () => {
  const spec: Lab = { machines: { a: {}, b: {}, c: {} }, switches: { sw: {} } };
  join(spec, 'a', 'b', true);
  join(spec, 'b', 'c', true);
  join(spec, 'c', 'sw', true);
  remove(spec, ['b']);
  expect(spec.wires).toEqual({});
  expect(spec.machines!.a!.interfaces).toEqual({});
  remove(spec, ['sw']);
  expect(spec.machines).toEqual({ a: { interfaces: {} }, c: { interfaces: {} } });
});
