"""gdb commands for a process with Vink's kernel in it: machines, tasks, sockets, packets. `vink debug` loads them.

Everything is read through the image's own debug information, so that the commands follow a changed kernel."""

import re
import socket as host
import struct
import time

import gdb

TCP_STATES = [
    "", "ESTABLISHED", "SYN_SENT", "SYN_RECV", "FIN_WAIT1", "FIN_WAIT2", "TIME_WAIT", "CLOSE", "CLOSE_WAIT",
    "LAST_ACK", "LISTEN", "CLOSING", "NEW_SYN_RECV", "BOUND_INACTIVE",
]
FAMILIES = {1: "unix", 2: "inet", 10: "inet6", 16: "netlink", 17: "packet"}
TYPES = {1: "stream", 2: "dgram", 3: "raw", 5: "seqpacket", 10: "packet"}


def value(text):
    """What an expression of C is now."""
    try:
        return gdb.parse_and_eval(text)
    except gdb.error as error:
        raise gdb.GdbError(f"{text}: {error}") from error


def variable(name):
    """A variable of the image. In an expression its name may be another object's, a function of Rust for example."""
    for objfile in gdb.objfiles():
        if objfile.lookup_global_symbol("vink_call_start") is None:
            continue
        symbol = objfile.lookup_static_symbol(name) or objfile.lookup_global_symbol(name)
        if symbol is not None:
            return symbol.value()
    try:
        value("(long)&vink_call_start")
    except gdb.GdbError as error:
        raise gdb.GdbError("no image is loaded yet: break in it first") from error
    raise gdb.GdbError(f"the image's debug information has no {name}: can you read the folder where it was built?")


def cast(pointer, name):
    """A pointer as one to this structure."""
    return pointer.cast(gdb.lookup_type(name).pointer())


def container(pointer, name, member):
    """The structure that this member is in: container_of()."""
    field = member_offset(gdb.lookup_type(name), member)
    return cast(gdb.Value(int(pointer) - field), name)


def member_offset(kind, path):
    """Where a member is in a structure, in bytes."""
    offset = 0
    for name in path.split("."):
        field = next(f for f in kind.strip_typedefs().fields() if f.name == name)
        offset += field.bitpos // 8
        kind = field.type
    return offset


def linked(head, name, member):
    """The structures of a list_head."""
    at = head["next"]
    while int(at) != int(head.address):
        yield container(at, name, member)
        at = at["next"]


def entries(idr):
    """The pointers of an IDR: (number, pointer)."""
    def below(entry, base):
        entry = int(entry)
        if entry & 3 != 2 or entry < 4096:
            if entry:
                yield base, entry
            return
        node = cast(gdb.Value(entry - 2), "struct xa_node").dereference()
        for i in range(64):
            yield from below(node["slots"][i], base + (i << int(node["shift"])))

    for number, entry in below(idr["idr_rt"]["xa_head"], int(idr["idr_base"])):
        yield number, gdb.Value(entry)


def machines():
    """Those that the host has made: (number, nsproxy)."""
    for number, entry in entries(variable("machines")):
        yield number, cast(entry, "struct nsproxy")


def machine_names():
    """The name of the machine that a network namespace is."""
    return {
        int(proxy["net_ns"]): proxy["uts_ns"]["name"]["nodename"].string()
        for _, proxy in machines()
    }


def tasks():
    """All tasks of the kernel, threads too."""
    first = variable("init_task").address
    yield first
    for leader in linked(first["tasks"], "struct task_struct", "tasks"):
        yield from linked(leader["signal"]["thread_head"], "struct task_struct", "thread_node")


def find_task(number):
    """The task of this pid."""
    for task in tasks():
        if int(task["pid"]) == number:
            return task
    raise gdb.GdbError(f"there is no task {number}: vink-tasks lists them")


def sockets(task):
    """A task's sockets: (descriptor, struct socket *)."""
    files = task["files"]
    if int(files) == 0:
        return
    table = files["fdt"]
    operations = int(variable("socket_file_ops").address)
    for number in range(int(table["max_fds"])):
        file = table["fd"][number]
        if int(file) and int(file["f_op"]) == operations:
            yield number, cast(file["private_data"], "struct socket")


def address(family, where, port):
    """As ss prints it."""
    size = int(where.type.sizeof)
    memory = gdb.selected_inferior().read_memory(int(where.address), size).tobytes()
    text = host.inet_ntop(host.AF_INET if family == 2 else host.AF_INET6, memory)
    return f"{text}:{port}" if family == 2 else f"[{text}]:{port}"


def describe(sock):
    """A socket in a line: family, type, state, addresses."""
    sk = sock["sk"]
    if int(sk) == 0:
        return "without a struct sock"
    common = sk["__sk_common"]
    family = int(common["skc_family"])
    kind = TYPES.get(int(sock["type"]), str(int(sock["type"])))
    words = [FAMILIES.get(family, str(family)), kind]
    if family in (2, 10):
        protocol = int(sk["sk_protocol"])
        if protocol == 6:
            words[1] = "tcp"
            words.append(TCP_STATES[int(common["skc_state"])])
        elif protocol == 17:
            words[1] = "udp"
        local, remote = (
            ("skc_rcv_saddr", "skc_daddr") if family == 2 else ("skc_v6_rcv_saddr", "skc_v6_daddr")
        )
        remote_port = host.ntohs(int(common["skc_dport"]))
        words.append(address(family, common[local], int(common["skc_num"])))
        words.append(address(family, common[remote], remote_port))
    words.append(f"(struct sock *) {int(sk):#x}")
    return " ".join(words)


class Command(gdb.Command):
    """What all commands have in common; the docstring is what `help` says."""

    def __init__(self, name):
        super().__init__(name, gdb.COMMAND_DATA)

    def invoke(self, text, from_tty):
        self.do(gdb.string_to_argv(text))


class Machines(Command):
    """vink-machine [NAME]: the machines, or the interfaces of one."""

    def do(self, words):
        for number, proxy in machines():
            name = proxy["uts_ns"]["name"]["nodename"].string()
            if not words:
                print(f"{number:5} {name:16} (struct net *) {int(proxy['net_ns']):#x}")
            elif words[0] == name:
                for device in linked(proxy["net_ns"]["dev_base_head"], "struct net_device", "dev_list"):
                    state = "up" if int(device["flags"]) & 1 else "down"
                    print(
                        f"{int(device['ifindex']):5} {device['name'].string():16} {state:4} "
                        f"mtu {int(device['mtu'])} (struct net_device *) {int(device):#x}"
                    )


class Tasks(Command):
    """vink-tasks: the tasks of the kernel: pid, name, machine, what each waits in."""

    def do(self, words):
        names = machine_names()
        current = int(variable("vink_current"))
        for task in tasks():
            proxy = task["nsproxy"]
            machine = names.get(int(proxy["net_ns"]), "-") if int(proxy) else "-"
            mark = "*" if int(task) == current else " "
            state = "runs" if int(task["__state"]) == 0 else "waits"
            print(f"{mark}{int(task['pid']):6} {task['comm'].string():16} {machine:16} {state}")


class Sockets(Command):
    """vink-socks [MACHINE]: the sockets of all tasks, or of those of a machine."""

    def do(self, words):
        names, seen = machine_names(), set()
        for task in tasks():
            proxy, files = task["nsproxy"], int(task["files"])
            if int(proxy) == 0 or files in seen:
                continue
            seen.add(files)
            machine = names.get(int(proxy["net_ns"]), "-")
            if words and words[0] != machine:
                continue
            for number, sock in sockets(task):
                print(f"{machine:12} task {int(task['pid'])} fd {number}: {describe(sock)}")


def scalars(structure, prefix=""):
    """All numbers in a structure: (name, value)."""
    for field in structure.type.strip_typedefs().fields():
        inner = structure[field]
        kind = inner.type.strip_typedefs()
        name = f"{prefix}{field.name}" if field.name else prefix.rstrip(".")
        if kind.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
            yield from scalars(inner, f"{name}." if name else "")
        elif kind.code in (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_BOOL, gdb.TYPE_CODE_ENUM):
            yield name, inner


class Pcb(Command):
    """vink-pcb FD|EXPRESSION [TASK] [/REGEX]: the protocol control block of a connection, each number in it that is
    not 0: of the descriptor FD of the current task, or of TASK, or of a struct sock *. /REGEX: only members whose
    names match."""

    def do(self, words):
        pattern = next((re.compile(w[1:]) for w in words if w.startswith("/")), re.compile(""))
        words = [w for w in words if not w.startswith("/")]
        if not words:
            raise gdb.GdbError("of which connection? vink-socks lists them")
        if words[0].isdigit():
            task = find_task(int(words[1])) if len(words) > 1 else variable("vink_current")
            found = dict(sockets(task))
            if int(words[0]) not in found:
                raise gdb.GdbError(f"task {int(task['pid'])} has no socket {words[0]}: vink-socks lists them")
            sk = found[int(words[0])]["sk"]
        else:
            sk = cast(value(words[0]), "struct sock")
        common = sk["__sk_common"]
        kind = "struct sock"
        if int(common["skc_family"]) in (2, 10):
            kind = "struct tcp_sock" if int(sk["sk_protocol"]) == 6 else "struct inet_sock"
        for name, number in scalars(cast(sk, kind).dereference()):
            if pattern.search(name) and int(number) != 0:
                print(f"{name} = {number}")


class Packet(Command):
    """vink-skb EXPRESSION: the packet in a struct sk_buff *: its sizes, and its headers as far as they are there."""

    def do(self, words):
        if len(words) != 1:
            raise gdb.GdbError("vink-skb EXPRESSION, such as skb")
        skb = cast(value(words[0]), "struct sk_buff")
        shared = cast(skb["head"] + int(skb["end"]), "struct skb_shared_info")
        device = skb["dev"]
        print(
            f"len {int(skb['len'])} (in fragments {int(skb['data_len'])}), segments {int(shared['gso_segs'])} "
            f"of {int(shared['gso_size'])}, on {device['name'].string() if int(device) else '-'}"
        )
        length = int(skb["len"]) - int(skb["data_len"])
        start = int(skb["data"])
        network = int(skb["head"]) + int(skb["network_header"])
        end = start + length
        if network < int(skb["head"]) or network >= end or int(skb["network_header"]) == 0xFFFF:
            network = start
        data = gdb.selected_inferior().read_memory(network, end - network).tobytes()
        print(headers(data))


def headers(data):
    """A line about an IP packet."""
    if len(data) >= 20 and data[0] >> 4 == 4:
        protocol, size = data[9], (data[0] & 15) * 4
        ends = [host.inet_ntop(host.AF_INET, data[i : i + 4]) for i in (12, 16)]
        text = f"IPv4 ttl {data[8]} {ends[0]} > {ends[1]}"
    elif len(data) >= 40 and data[0] >> 4 == 6:
        protocol, size = data[6], 40
        ends = [host.inet_ntop(host.AF_INET6, data[i : i + 16]) for i in (8, 24)]
        text = f"IPv6 hop limit {data[7]} {ends[0]} > {ends[1]}"
    else:
        return f"no IP header: {data[:32].hex(' ')}"
    inner = data[size:]
    if protocol == 6 and len(inner) >= 20:
        source, target, sequence, acknowledged, flags, window = struct.unpack("!HHIIHH", inner[:16])
        names = "".join(c for bit, c in enumerate("FSRPAUEC") if flags >> bit & 1)
        text += f" TCP {source} > {target} [{names}] seq {sequence} ack {acknowledged} win {window}"
    elif protocol == 17 and len(inner) >= 8:
        source, target, length = struct.unpack("!HHH", inner[:6])
        text += f" UDP {source} > {target} length {length}"
    elif protocol in (1, 58) and len(inner) >= 8:
        text += f" ICMP type {inner[0]} code {inner[1]}"
    else:
        text += f" protocol {protocol}"
    return text


class Backtrace(Command):
    """vink-bt [TASK]: where a task of the kernel waits, as bt shows it; without TASK, of all that wait."""

    # What vink_switch_stack() has pushed, from where the stack was left.
    SAVED = ["r15", "r14", "r13", "r12", "rbx", "rbp", "rip"]

    def do(self, words):
        chosen = [find_task(int(words[0]))] if words else list(tasks())
        current = int(variable("vink_current"))
        for task in chosen:
            print(f"task {int(task['pid'])} ({task['comm'].string()}):")
            if int(task) == current:
                print("  the current one: bt")
                continue
            self.show(int(task["thread"]["sp"]))

    def show(self, stack):
        gdb.execute("select-frame 0")
        names = self.SAVED + ["rsp"]
        before = {name: int(value(f"(unsigned long)${name}")) for name in names}
        memory = gdb.selected_inferior().read_memory(stack, 8 * len(self.SAVED)).tobytes()
        values = list(struct.unpack(f"{len(self.SAVED)}Q", memory)) + [stack + 8 * len(self.SAVED)]
        try:
            for name, number in zip(names, values):
                gdb.execute(f"set ${name} = {number}", to_string=True)
            print(gdb.execute("bt 24", to_string=True), end="")
        finally:
            for name in names:
                gdb.execute(f"set ${name} = {before[name]}", to_string=True)


class StoppedClock:
    """While the program is stopped, so is the kernel's clock: how long it has been is added to VINK_STOPPED, which the
    clock takes off."""

    def __init__(self):
        self.since = self.where = None
        gdb.events.stop.connect(self.stopped)
        gdb.events.cont.connect(self.goes_on)

    def stopped(self, _):
        if self.since is not None:
            return
        try:
            address = int(value("(unsigned long)&VINK_STOPPED"))
        except gdb.GdbError:
            return  # It is no vink, or not yet.
        self.where = (gdb.selected_inferior().pid, address)
        self.since = time.monotonic_ns()

    def goes_on(self, _):
        if self.since is None:
            return
        process, address = self.where
        # gdb would not write to a program that it takes for running.
        with open(f"/proc/{process}/mem", "r+b", buffering=0) as memory:
            memory.seek(address)
            (before,) = struct.unpack("Q", memory.read(8))
            memory.seek(address)
            memory.write(struct.pack("Q", before + time.monotonic_ns() - self.since))
        self.since = None


Machines("vink-machine")
Tasks("vink-tasks")
Sockets("vink-socks")
Pcb("vink-pcb")
Packet("vink-skb")
Backtrace("vink-bt")
StoppedClock()
