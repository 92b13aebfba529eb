// The API's types are what the control process says of itself.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import openapiTS, { astToString, type OpenAPI3 } from 'openapi-typescript';
import { expect, test } from 'vitest';
import { ask, ROOT } from './harness.ts';

test('types_are_what_the_control_process_describes', async () => {
  const described = await ask<OpenAPI3>('GET', '/openapi.json');
  const written = astToString(await openapiTS(described, { defaultNonNullable: false }));
  const path = join(ROOT, 'ui/src/api/schema.d.ts');
  if (process.env.VINK_GOLDEN === 'write') writeFileSync(path, written);
  expect(
    readFileSync(path, 'utf8') === written,
    'VINK_GOLDEN=write ui/tests/run tests/types.test.ts writes it anew',
  ).toBe(true);
});
