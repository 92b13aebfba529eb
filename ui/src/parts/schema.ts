// What lab.schema.json says of an object's fields: how each is typed in, and what is to be known of it.
import schema from '../../../labs/lab.schema.json';

interface Described {
  $ref?: string;
  type?: string | string[];
  enum?: unknown[];
  const?: unknown;
  anyOf?: Described[];
  oneOf?: Described[];
  description?: string;
  properties?: Record<string, Described>;
}

export interface Field {
  key: string;
  description: string;
  kind: 'boolean' | 'choice' | 'text' | 'yaml';
  choices: string[];
  /** Whether it is a number, and can't be a text. */
  isNumber: boolean;
}

const definitions = schema.$defs as unknown as Record<string, Described>;

function resolved(described: Described): Described {
  return described.$ref ? resolved(definitions[described.$ref.replace('#/$defs/', '')]!) : described;
}

/** What a value may be, besides null. */
function alternatives(described: Described): Described[] {
  const one = resolved(described);
  const several = one.anyOf ?? one.oneOf;
  if (several) return several.flatMap(alternatives);
  const types = [one.type ?? []].flat().filter((type) => type !== 'null');
  if (one.enum || one.const !== undefined || !types.length) return one.type === 'null' ? [] : [one];
  return types.map((type) => ({ ...one, type }));
}

export function fields(type: string): Field[] {
  return Object.entries(definitions[type]?.properties ?? {}).map(([key, described]) => {
    const all = alternatives(described);
    const choices = [...new Set(all.flatMap((one) => one.enum ?? (one.const === undefined ? [] : [one.const])))];
    const types = all.flatMap((one) => (one.type ? [one.type as string] : []));
    let kind: Field['kind'] = 'yaml';
    if (types.length === 1 && types[0] === 'boolean') kind = 'boolean';
    // A list of such, which some may be instead, is typed in the lab file.
    else if (choices.length > 1 && types.every((one) => one === 'string' || one === 'array')) kind = 'choice';
    else if (types.every((one) => ['string', 'number', 'integer', 'boolean'].includes(one))) kind = 'text';
    const description = described.description ?? resolved(described).description ?? '';
    return {
      key,
      description,
      kind,
      choices: choices.map(String),
      isNumber: !types.includes('string'),
    };
  });
}
