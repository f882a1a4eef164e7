# SPDX-License-Identifier: Apache-2.0
"""Documents against their JSON schema, for tests of the command line."""
from cli_harness import check

TYPES = {'object': dict, 'array': list, 'string': str, 'integer': int, 'number': (int, float), 'null': type(None)}


def follows(schema, part, value):
    """Checks what the schema uses of JSON Schema."""
    if '$ref' in part:
        part = {**part, **schema['$defs'][part['$ref'].rpartition('/')[2]]}
    unknown = set(part) - {'$schema', '$defs', '$ref', 'title', 'description', 'type', 'const', 'enum', 'required', 'properties',
                           'additionalProperties', 'items', 'minItems', 'minimum', 'anyOf'}
    check(not unknown, 'this test does not know', unknown)
    if 'anyOf' in part:
        one = next((p for p in part['anyOf']
                    if schema['$defs'][p['$ref'].rpartition('/')[2]]['properties']['table']['const'] == value['table']), None)
        check(one, 'no such table', value['table'])
        follows(schema, one, value)
    types = part.get('type', [])
    types = [types] if isinstance(types, str) else types
    check(not types or isinstance(value, tuple(t for k in types for t in ([TYPES[k]] if isinstance(TYPES[k], type) else TYPES[k]))),
          types, value)
    check('const' not in part or value == part['const'], part, value)
    check('enum' not in part or value in part['enum'], part, value)
    if isinstance(value, dict):
        check(set(part.get('required', [])) <= set(value), part.get('required'), value)
        check(part.get('additionalProperties', True) or set(value) <= set(part['properties']), part.get('properties'), value)
        for key, item in value.items():
            follows(schema, part.get('properties', {}).get(key, {}), item)
    if isinstance(value, list):
        check(len(value) >= part.get('minItems', 0), part, value)
        for item in value:
            follows(schema, part.get('items', {}), item)
