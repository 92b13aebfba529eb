"""Writes src/vink/api.py from the control API's own description: VINK_GOLDEN=write tests/run test_api.py

What a lab file has too (all that the schema `Lab` consists of) becomes TypedDicts with the lab file's keys, so that a
lab in Python and one in YAML are the same. All other objects become dataclasses. Each operation becomes a method of a
plain and of an async client. tests/test_api.py fails when the control process describes something else.
"""

import json
import keyword
import re
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]

# What operations are called; one that is not here has its id as its name.
NAMES = {
    "getVersion": "version",
    "postTickets": "new_ticket",
    "postSession": "use_ticket",
    "getSession": "session",
    "getReady": "ready_labs",
    "getReadyName": "ready_lab",
    "postSpecCheck": "check_spec",
    "postSpecFormat": "format_spec",
    "getLabs": "labs",
    "putLabsLab": "put_lab",
    "getLabsLab": "lab",
    "deleteLabsLab": "remove_lab",
    "getLabsLabSpec": "spec",
    "getLabsLabTopology": "topology",
    "getLabsLabClock": "clock",
    "patchLabsLabClock": "change_clock",
    "postLabsLabClockRun": "run_clock",
    "postLabsLabRestart": "restart_lab",
    "postLabsLabMachinesMachineRestart": "restart_machine",
    "getLabsLabMachines": "machines",
    "postLabsLabMachines": "add_machine",
    "getLabsLabMachinesMachine": "machine",
    "deleteLabsLabMachinesMachine": "remove_machine",
    "postLabsLabMachinesMachineInterfaces": "add_interface",
    "getLabsLabMachinesMachineInterfacesInterface": "interface",
    "patchLabsLabMachinesMachineInterfacesInterface": "change_interface",
    "deleteLabsLabMachinesMachineInterfacesInterface": "remove_interface",
    "getLabsLabWires": "wires",
    "postLabsLabWires": "add_wire",
    "getLabsLabWiresWire": "wire",
    "patchLabsLabWiresWire": "change_wire",
    "deleteLabsLabWiresWire": "remove_wire",
    "getLabsLabPrograms": "programs",
    "postLabsLabPrograms": "start_program",
    "getLabsLabProgramsProgram": "program",
    "deleteLabsLabProgramsProgram": "end_program",
    "postLabsLabProgramsProgramSignal": "signal_program",
    "getLabsLabProgramsProgramReport": "report",
    "getLabsLabProgramsProgramOutput": "output",
    "getLabsLabProgramsProgramTerminal": "attach",
    "getLabsLabRelays": "relays",
    "postLabsLabMachinesMachineRelays": "add_relay",
    "getLabsLabRelaysRelay": "relay",
    "deleteLabsLabRelaysRelay": "remove_relay",
    "getLabsLabPods": "pods",
    "postLabsLabPods": "load_pod",
    "getLabsLabPodsPod": "pod",
    "postLabsLabPodsPodRevoke": "revoke_pod",
    "getLabsLabPaths": "paths",
    "getLabsLabPathsPath": "path",
    "deleteLabsLabPathsPath": "remove_path",
    "getLabsLabCaptures": "captures",
    "postLabsLabCaptures": "start_capture",
    "deleteLabsLabCapturesCapture": "stop_capture",
    "getLabsLabCapturesStream": "capture",
    "getLabsLabBreakpoints": "breakpoints",
    "postLabsLabBreakpoints": "add_breakpoint",
    "patchLabsLabBreakpointsBreakpoint": "change_breakpoint",
    "postLabsLabBreakpointsBreakpointVerdict": "decide_packet",
    "deleteLabsLabBreakpointsBreakpoint": "remove_breakpoint",
    "getLabsLabFilters": "filters",
    "getLabsLabFiltersPlace": "filter",
    "putLabsLabFiltersPlace": "put_filter",
    "deleteLabsLabFiltersPlace": "remove_filter",
    "postLabsLabFiltersPlaceRollback": "roll_back_filter",
    "getLabsLabSeries": "series",
    "postLabsLabSeries": "add_series",
    "deleteLabsLabSeriesSeries": "remove_series",
    "postLabsLabContinue": "resume",
    "postLabsLabMachinesMachineContinue": "resume_machine",
    "getLabsLabSamplesStream": "samples",
    "getEvents": "events",
    "getLabsLabStatistics": "statistics",
    "getLabsLabStatisticsStream": "statistics_stream",
    "getOpenapiJson": "openapi",
}

HEAD = '''"""The control API: its objects, and a client for each kind of program, plain and async.

Written by generate.py from the description that the control process serves. Not to be edited.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, TypeAlias, TypedDict

from vink._transport import AsyncSocket, AsyncTransport, Socket, Transport, given, path_of, query_of
'''


class Generator:
    """A description, and what Python makes of it."""

    def __init__(self, document: Schema) -> None:
        self.document = document
        self.schemas: dict[str, Schema] = document["components"]["schemas"]
        self.of_file = set(self.reached("Lab"))

    def reached(self, name: str) -> Iterator[str]:
        """The schemas that one consists of."""
        seen: set[str] = set()
        waiting = [name]
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                yield name
                waiting.extend(references(self.schemas[name]))

    def name(self, schema: str) -> str:
        """Of two schemas of one name, the lab file's gets an ending."""
        if schema.endswith("2"):
            return schema.removesuffix("2")
        return f"{schema}Spec" if f"{schema}2" in self.schemas else schema

    def is_class(self, reference: str) -> bool:
        """Whether it becomes a dataclass."""
        return reference not in self.of_file and self.schemas[reference].get("type") == "object"

    def type(self, schema: Schema) -> str:
        """As an annotation."""
        if "$ref" in schema:
            return self.name(reference(schema))
        if "const" in schema:
            return f"Literal[{schema['const']!r}]"
        for union in "oneOf", "anyOf":
            if union in schema:
                return joined(self.type(each) for each in schema[union])
        kind = schema.get("type")
        if isinstance(kind, list):
            return joined(self.type({**schema, "type": each}) for each in kind)
        if kind == "array":
            return f"list[{self.type(schema['items'])}]"
        if kind == "object":
            values = schema.get("additionalProperties")
            return f"dict[str, {self.type(values) if values else 'Any'}]"
        simple = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
        return simple.get(kind, "Any") if isinstance(kind, str) else "Any"

    def decoded(self, schema: Schema, value: str) -> str:
        """An expression that makes an object of what JSON has; the same where nothing is to be made."""
        if "$ref" in schema and self.is_class(reference(schema)):
            return f"{self.name(reference(schema))}.from_json({value})"
        if is_list(schema):
            element = self.decoded(schema["items"], "each")
            return value if element == "each" else f"[{element} for each in {value}]"
        return value

    def encoded(self, schema: Schema, value: str) -> str:
        """The other way round."""
        if "$ref" in schema and self.is_class(reference(schema)):
            return f"{value}.to_json()"
        if is_list(schema):
            element = self.encoded(schema["items"], "each")
            return value if element == "each" else f"[{element} for each in {value}]"
        for each in schema.get("anyOf", []):
            if "$ref" in each and self.is_class(reference(each)):
                return f"{value} and {value}.to_json()"
        return value

    def definition(self, schema_name: str) -> Iterator[str]:
        """A schema's type."""
        schema = self.schemas[schema_name]
        name = self.name(schema_name)
        about = prose(schema.get("description") or "A part of a lab file.")
        if schema.get("type") != "object" or "properties" not in schema:
            yield f"{name}: TypeAlias = {quoted(self.type(schema))}"
            yield about_constant(about)
        elif schema_name in self.of_file:
            yield f"{name} = TypedDict("
            yield f'    "{name}",'
            yield "    {"
            for key, each in schema["properties"].items():
                yield f"        {key!r}: {quoted(self.type(each))},"
            yield "    },"
            yield "    total=False,"
            yield ")"
            yield about_constant(about)
        else:
            yield from self.dataclass(name, about, *self.properties(schema))

    def properties(self, schema: Schema) -> tuple[dict[str, Schema], set[str]]:
        """An object's, with those of all its kinds, none of which is always there."""
        fields = dict(schema["properties"])
        required = set(schema.get("required", []))
        kinds: list[str] = []
        for kind in schema.get("oneOf", []):
            of_kind = dict(kind["properties"])
            if "$ref" in kind:
                of_kind.update(self.schemas[reference(kind)]["properties"])
            for key, each in of_kind.items():
                if "const" in each:
                    kinds.append(each["const"])
                    fields[key] = {"oneOf": [{"const": name} for name in kinds], "description": "What happened."}
                    required.add(key)
                else:
                    fields[key] = merged(fields[key], each) if key in fields else each
        return fields, required

    def dataclass(self, name: str, about: str, fields: dict[str, Schema], required: set[str]) -> Iterator[str]:
        """A class with its way from and to JSON."""
        yield "@dataclass(slots=True, kw_only=True)"
        yield f"class {name}:"
        yield indented(docstring(about))
        made = []
        for key, schema in fields.items():
            attribute = attribute_of(key)
            annotation = self.type(schema)
            missing, default = None, ""
            if key not in required:
                missing = schema.get("default")
                if isinstance(missing, dict | list):
                    factory = self.name(reference(schema)) if "$ref" in schema else type(missing).__name__
                    default = f" = field(default_factory={factory})"
                else:
                    default = f" = {missing!r}"
                if missing is None and "None" not in annotation:
                    annotation += " | None"
            yield f"    {attribute}: {annotation}{default}"
            if "description" in schema:
                yield indented(docstring(prose(schema["description"])))
            value = f'value["{key}"]' if key in required else f'value.get("{key}", {missing!r})'
            decoded = self.decoded(schema, value)
            if decoded != value and key not in required and missing is None:
                decoded = f'{decoded} if "{key}" in value else None'
            encoded = self.encoded(schema, f"self.{attribute}")
            if encoded != f"self.{attribute}" and " and " not in encoded and annotation.endswith("None"):
                encoded = f"self.{attribute} and {encoded}"
            made.append((key, attribute, decoded, encoded))
        yield ""
        yield "    @classmethod"
        yield "    def from_json(cls, value: Mapping[str, Any]) -> Self:"
        yield '        """Of what the API answers."""'
        yield "        return cls("
        for _, attribute, decoded, _ in made:
            yield f"            {attribute}={decoded},"
        yield "        )"
        yield ""
        yield "    def to_json(self) -> dict[str, Any]:"
        yield '        """As the API takes it."""'
        yield "        return given("
        for key, _, _, encoded in made:
            yield f'            ("{key}", {encoded}),'
        yield "        )"

    def operations(self, is_async: bool) -> Iterator[str]:
        """A client."""
        flavour = "Async" if is_async else ""
        yield f"class {flavour}Client({flavour}Transport):"
        kind = "awaits its" if is_async else "waits for its"
        about = f"A client that {kind} answers. Where they come from: vink.control has control processes."
        yield indented(docstring(about))
        for route, methods in self.document["paths"].items():
            for method, operation in methods.items():
                yield ""
                yield from self.operation(route, method, operation, is_async)

    def operation(self, route: str, method: str, operation: Schema, is_async: bool) -> Iterator[str]:
        """A method of a client."""
        parameters = operation.get("parameters", [])
        names = [each["name"] for each in parameters if each["in"] == "path"]
        queries = [each for each in parameters if each["in"] == "query"]
        arguments = ["self", *(f"{name}: str" for name in names)]
        sent = []
        body = operation.get("requestBody")
        if body:
            arguments.append(f"body: {self.type(content(body))}")
            sent.append(self.encoded(content(body), "body"))
        if queries:
            arguments.append("*")
        for each in queries:
            annotation = self.type(each["schema"])
            optional = "" if each["required"] else " = None"
            if optional and "None" not in annotation:
                annotation += " | None"
            arguments.append(f"{attribute_of(each['name'])}: {annotation}{optional}")
        target = route
        for name in names:
            target = target.replace(f"{{{name}}}", "{}")
        target = f'path_of("{target}", {", ".join(names)})' if names else f'"{target}"'
        if queries:
            asked = ", ".join(as_argument(each["name"]) for each in queries)
            target += f" + query_of({asked})"
        verb = f'"{method.upper()}", {target}'

        answer = [each for status, each in operation["responses"].items() if status.startswith("2")]
        wait, define = ("await ", "async def") if is_async else ("", "def")
        flavour = "Async" if is_async else ""
        about = indented(docstring(operation["summary"] + "."), 2)
        name = name_of(operation["operationId"])
        messages = operation.get("x-messages")
        if messages and "from-client" in messages:
            yield f"    {define} {name}({', '.join(arguments)}) -> {flavour}Socket:"
            yield about
            yield f"        return {wait}self._open({target})"
        elif messages:
            told = messages["from-server"]
            schema = told.get("text")
            result = self.type(schema) if schema else "bytes"
            decoded = f"{result}.from_json(each)" if schema else "each"
            source = "_events" if schema else "_pieces"
            loop = "async for" if is_async else "for"
            yield f"    {define} {name}({', '.join(arguments)}) -> {flavour}Iterator[{result}]:"
            yield about
            yield f"        {loop} each in self.{source}({target}):"
            yield f"            yield {decoded}"
        elif answer and "application/octet-stream" in answer[0].get("content", {}):
            loop = "async for" if is_async else "for"
            yield f"    {define} {name}({', '.join(arguments)}) -> {flavour}Iterator[bytes]:"
            yield about
            yield f"        {loop} each in self._stream({target}):"
            yield "            yield each"
        elif answer and "content" in answer[0]:
            schema = content(answer[0])
            yield f"    {define} {name}({', '.join(arguments)}) -> {self.type(schema)}:"
            yield about
            asked = f"{wait}self._ask({', '.join([verb, *sent])})"
            decoded = self.decoded(schema, "answer")
            yield f"        answer: {'Any' if decoded != 'answer' else self.type(schema)} = {asked}"
            yield f"        return {decoded}"
        else:
            yield f"    {define} {name}({', '.join(arguments)}) -> None:"
            yield about
            yield f"        {wait}self._ask({', '.join([verb, *sent])})"

    def all(self) -> Iterator[str]:
        """The module."""
        yield HEAD
        names = sorted(self.schemas, key=lambda each: (self.order(each), self.name(each)))
        for name in names:
            yield from self.definition(name)
            yield "\n"
        yield from self.operations(False)
        yield "\n"
        yield from self.operations(True)

    def order(self, name: str) -> int:
        """Types that are names for others come first."""
        return 1 if self.is_class(name) else 0


def merged(one: Schema, other: Schema) -> Schema:
    """Either of both, without what only one of them says."""
    if {**one, "description": ""} == {**other, "description": ""}:
        return {key: value for key, value in one.items() if other.get(key) == value}
    return {"anyOf": [one, other]}


def references(schema: Any) -> Iterator[str]:
    """Names of schemas that one refers to."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            yield reference(schema)
        for each in schema.values():
            yield from references(each)
    elif isinstance(schema, list):
        for each in schema:
            yield from references(each)


def is_list(schema: Schema) -> bool:
    """Whether it is a list, or none."""
    kind = schema.get("type")
    return kind == "array" or (isinstance(kind, list) and "array" in kind)


def reference(schema: Schema) -> str:
    """The name that it refers to."""
    return str(schema["$ref"]).rsplit("/", 1)[-1]


def content(described: Schema) -> Schema:
    """Of a request or a response."""
    schema: Schema = described["content"]["application/json"]["schema"]
    return schema


def joined(types: Iterator[str]) -> str:
    """A union, each of them once."""
    return " | ".join(dict.fromkeys(part for each in types for part in each.split(" | ")))


def quoted(annotation: str) -> str:
    """For where annotations are evaluated, and may name what comes later."""
    return json.dumps(annotation)


def name_of(operation: str) -> str:
    """What an operation is called."""
    return NAMES.get(operation) or re.sub(r"(?<!^)([A-Z])", r"_\1", operation).lower()


def as_argument(key: str) -> str:
    """A key as an argument that is given by its name."""
    name = attribute_of(key)
    return f"{key}={name}" if key == name else f'**{{"{key}": {name}}}'


def attribute_of(key: str) -> str:
    """A key as Python can say it."""
    name = key.replace("-", "_")
    return f"{name}_" if keyword.iskeyword(name) else name


def prose(text: str) -> str:
    """A description without line breaks."""
    text = " ".join(text.split())
    return text if text.endswith(".") else text + "."


def docstring(text: str) -> str:
    """Within a hundred characters."""
    lines = textwrap.wrap(f'"""{text}"""', 100)
    return "\n".join(lines)


def about_constant(text: str) -> str:
    """Behind a name."""
    return docstring(text)


def indented(text: str, levels: int = 1) -> str:
    """All its lines."""
    return textwrap.indent(text, "    " * levels)


if __name__ == "__main__":
    print("\n".join(Generator(json.load(sys.stdin)).all()))
