//! Capture filters: compiled by libpcap, which is loaded when the first one is needed, and executed
//! here.
//!
//! libpcap takes minutes for thousands of terms and can't be interrupted, so that no worker
//! compiles: a process of its own does ([`compile_filter_bounded`]).
//!
//! The machine is that of the BSD packet filter: see Documentation/networking/filter.rst. A packet
//! that a program looks beyond the end of is not what it looks for.

use std::ffi::{c_char, c_int, c_uint, c_void, CStr, CString};
use std::mem::transmute;
use std::ptr::null_mut;

use vink_protocol::{Filter, Instruction, MAX_COMPILE_SECONDS};
use vink_sys::process::set_limit;

/// `DLT_EN10MB`.
const ETHERNET: c_int = 1;
/// `PCAP_NETMASK_UNKNOWN`: no interface has a broadcast address that the filter could be about.
const NO_NETMASK: c_uint = u32::MAX;
/// Bytes of a packet that the program may ask for.
const MAX_PACKET: c_int = 262_144;

/// Bytes of an expression.
const MAX_EXPRESSION: usize = 64 << 10;
/// Instructions of a program, as Linux has it (`BPF_MAXINSNS`): each packet may take all of them.
const MAX_INSTRUCTIONS: usize = 4096;
/// Bytes of memory that libpcap may take.
const MAX_MEMORY: u64 = 1 << 30;

/// `struct bpf_program` of libpcap, whose instructions are laid out as the kernel's.
#[repr(C)]
struct Program {
    len: c_uint,
    instructions: *mut libc::sock_filter,
}

// libpcap's functions, as pcap(3pcap) declares them.
type OpenDead = unsafe extern "C" fn(c_int, c_int) -> *mut c_void;
type Compile =
    unsafe extern "C" fn(*mut c_void, *mut Program, *const c_char, c_int, c_uint) -> c_int;
type Geterr = unsafe extern "C" fn(*mut c_void) -> *mut c_char;
type Freecode = unsafe extern "C" fn(*mut Program);
type Close = unsafe extern "C" fn(*mut c_void);

struct Libpcap {
    open_dead: OpenDead,
    compile: Compile,
    geterr: Geterr,
    freecode: Freecode,
    close: Close,
}

impl Libpcap {
    /// It stays loaded, so that loading it again costs nothing.
    fn load() -> Result<Libpcap, String> {
        let names = [c"libpcap.so.0.8", c"libpcap.so.1"];
        // SAFETY: libpcap's constructors do no harm.
        let open = |name: &CStr| unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        let library = names.into_iter().map(open).find(|found| !found.is_null());
        let library = library.ok_or(
            "filters need libpcap, which is not installed: `apt-get install libpcap0.8`, or capture all",
        )?;
        let find = |name: &CStr| {
            // SAFETY: the library is loaded, and the name NUL-terminated.
            let found = unsafe { libc::dlsym(library, name.as_ptr()) };
            let lacks = || format!("this libpcap has no {}", name.to_string_lossy());
            if found.is_null() {
                Err(lacks())
            } else {
                Ok(found)
            }
        };
        // SAFETY: these are functions of these types.
        unsafe {
            Ok(Libpcap {
                open_dead: transmute::<*mut c_void, OpenDead>(find(c"pcap_open_dead")?),
                compile: transmute::<*mut c_void, Compile>(find(c"pcap_compile")?),
                geterr: transmute::<*mut c_void, Geterr>(find(c"pcap_geterr")?),
                freecode: transmute::<*mut c_void, Freecode>(find(c"pcap_freecode")?),
                close: transmute::<*mut c_void, Close>(find(c"pcap_close")?),
            })
        }
    }
}

/// Compiles an expression in a process that does nothing else: the host ends the process when that
/// takes too long.
///
/// # Errors
/// As [`compile_filter`].
pub fn compile_filter_bounded(text: &str) -> Result<Filter, String> {
    for (what, most) in [
        (libc::RLIMIT_CPU, MAX_COMPILE_SECONDS),
        (libc::RLIMIT_AS, MAX_MEMORY),
        // The end of a process that was bounded is no crash.
        (libc::RLIMIT_CORE, 0),
    ] {
        let limit = libc::rlimit {
            rlim_cur: most,
            rlim_max: most,
        };
        let _ = set_limit(0, what, &limit);
    }
    compile_filter(text)
}

/// Compiles an expression as in pcap-filter(7), which takes seconds if it has hundreds of terms.
///
/// # Errors
/// libpcap's words, or that it is too long.
pub fn compile_filter(text: &str) -> Result<Filter, String> {
    if text.len() > MAX_EXPRESSION {
        let bytes = text.len();
        return Err(format!(
            "it has {bytes} bytes, and {MAX_EXPRESSION} are the most"
        ));
    }
    let pcap = Libpcap::load()?;
    let expression = CString::new(text).map_err(|_| "a NUL byte".to_owned())?;
    let mut program = Program {
        len: 0,
        instructions: null_mut(),
    };
    // SAFETY: as pcap_compile(3pcap) wants it: a handle that is open, strings that outlive the
    // calls, a program that is freed once, after its instructions were copied.
    unsafe {
        let handle = (pcap.open_dead)(ETHERNET, MAX_PACKET);
        if handle.is_null() {
            return Err("pcap_open_dead(): no memory".to_owned());
        }
        let optimise = 1;
        let source = expression.as_ptr();
        let done = (pcap.compile)(handle, &mut program, source, optimise, NO_NETMASK);
        let result = match done {
            0 => {
                let len = program.len as usize;
                let code = std::slice::from_raw_parts(program.instructions, len);
                let code = code.iter().map(|i| Instruction {
                    code: i.code,
                    jt: i.jt,
                    jf: i.jf,
                    k: i.k,
                });
                let code = code.collect();
                (pcap.freecode)(&mut program);
                match len {
                    0..=MAX_INSTRUCTIONS => Ok(Filter {
                        text: text.to_owned(),
                        code,
                    }),
                    _ => Err(format!(
                        "its program has {len} instructions, and {MAX_INSTRUCTIONS} are the most"
                    )),
                }
            }
            _ => Err(CStr::from_ptr((pcap.geterr)(handle))
                .to_string_lossy()
                .into_owned()),
        };
        (pcap.close)(handle);
        result
    }
}

/// Whether a filter wants a packet, of which these bytes are known and which has `length` of them.
pub(super) fn wants(filter: &Filter, packet: &[u8], length: u32) -> bool {
    run(&filter.code, packet, length).is_some_and(|bytes| bytes > 0)
}

/// What the program returns; `None` if it looked for bytes that are not there, or is none.
fn run(program: &[Instruction], packet: &[u8], length: u32) -> Option<u32> {
    let mut memory = [0u32; 16];
    let (mut a, mut x) = (0u32, 0u32);
    let mut at = 0usize;
    // Jumps go forward only: it ends.
    loop {
        let instruction = program.get(at)?;
        at += 1;
        let (code, k) = (u32::from(instruction.code), instruction.k);
        let operand = if code & libc::BPF_X == 0 { k } else { x };
        match code & 7 {
            libc::BPF_LD => a = load(code, k, x, packet, length, &memory)?,
            libc::BPF_LDX if code & 0xe0 == libc::BPF_MSH => {
                x = u32::from(*packet.get(k as usize)? & 0xf) * 4;
            }
            libc::BPF_LDX => x = load(code, k, x, packet, length, &memory)?,
            libc::BPF_ST => *memory.get_mut(k as usize)? = a,
            libc::BPF_STX => *memory.get_mut(k as usize)? = x,
            libc::BPF_ALU => {
                a = match code & 0xf0 {
                    libc::BPF_ADD => a.wrapping_add(operand),
                    libc::BPF_SUB => a.wrapping_sub(operand),
                    libc::BPF_MUL => a.wrapping_mul(operand),
                    libc::BPF_DIV => a.checked_div(operand)?,
                    libc::BPF_MOD => a.checked_rem(operand)?,
                    libc::BPF_OR => a | operand,
                    libc::BPF_AND => a & operand,
                    libc::BPF_XOR => a ^ operand,
                    libc::BPF_LSH => a.checked_shl(operand).unwrap_or(0),
                    libc::BPF_RSH => a.checked_shr(operand).unwrap_or(0),
                    libc::BPF_NEG => a.wrapping_neg(),
                    _ => return None,
                }
            }
            libc::BPF_JMP => {
                let holds = match code & 0xf0 {
                    libc::BPF_JA => {
                        at += k as usize;
                        continue;
                    }
                    libc::BPF_JEQ => a == operand,
                    libc::BPF_JGT => a > operand,
                    libc::BPF_JGE => a >= operand,
                    libc::BPF_JSET => a & operand != 0,
                    _ => return None,
                };
                at += usize::from(if holds {
                    instruction.jt
                } else {
                    instruction.jf
                });
            }
            libc::BPF_RET => return Some(if code & 0x18 == libc::BPF_A { a } else { k }),
            _ if code & 0xf8 == libc::BPF_TAX => x = a,
            _ => a = x,
        }
    }
}

/// What BPF_LD and BPF_LDX get.
fn load(code: u32, k: u32, x: u32, packet: &[u8], length: u32, memory: &[u32; 16]) -> Option<u32> {
    let from = match code & 0xe0 {
        libc::BPF_IMM => return Some(k),
        libc::BPF_LEN => return Some(length),
        libc::BPF_MEM => return memory.get(k as usize).copied(),
        libc::BPF_ABS => k as usize,
        libc::BPF_IND => k.checked_add(x)? as usize,
        _ => return None,
    };
    let bytes = packet.get(from..)?;
    Some(match code & 0x18 {
        libc::BPF_W => u32::from_be_bytes(*bytes.first_chunk()?),
        libc::BPF_H => u32::from(u16::from_be_bytes(*bytes.first_chunk()?)),
        _ => u32::from(*bytes.first()?),
    })
}

#[cfg(test)]
mod tests {
    use super::{compile_filter, wants, MAX_EXPRESSION};

    /// A UDP packet over IPv4 with a VLAN tag or without: 10.0.0.1:1000 to 10.0.0.2:53.
    fn packet(tag: bool) -> Vec<u8> {
        let mut frame = vec![0xff; 12];
        if tag {
            frame.extend([0x81, 0, 0, 7]);
        }
        frame.extend([0x08, 0]);
        frame.extend([0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 17, 0, 0]);
        frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0x03, 0xe8, 0, 53, 0, 12, 0, 0, 1, 2, 3, 4]);
        frame
    }

    #[test]
    fn wants_what_was_asked_for() {
        let plain = packet(false);
        for (text, wanted) in [
            ("udp", true),
            ("tcp", false),
            ("ip6", false),
            ("port 53", true),
            ("src port 53", false),
            ("host 10.0.0.1 and udp port 1000", true),
            ("net 10.0.0.0/30", true),
            ("not net 10.0.0.0/8", false),
            ("greater 100", false),
            ("less 100", true),
            ("udp[8:4] = 0x01020304", true),
            ("udp[8] + 1 = 2", true),
            ("ether broadcast", true),
            ("ip[2:2] - ((ip[0] & 0xf) << 2) = 12", true),
            ("icmp6 or (vlan 7 and udp)", false),
            ("portrange 50-60", true),
            ("udp[100] = 0", false),
        ] {
            let filter = compile_filter(text).expect(text);
            assert_eq!(wants(&filter, &plain, plain.len() as u32), wanted, "{text}");
        }
        let tagged = packet(true);
        let filter = compile_filter("vlan 7 and udp port 53").expect("vlan");
        assert!(wants(&filter, &tagged, tagged.len() as u32));
        assert!(!wants(&filter, &plain, plain.len() as u32));
    }

    #[test]
    fn a_mistake_is_explained() {
        let error = compile_filter("tpc port 80").expect_err("no such protocol");
        assert!(!error.is_empty(), "{error}");
        assert!(compile_filter("udp\0").is_err());
        let long = vec!["udp"; MAX_EXPRESSION / 4].join(" or ");
        let error = compile_filter(&long).expect_err("too long");
        assert!(error.contains("65536 are the most"), "{error}");
    }

    #[test]
    fn a_packet_cut_short() {
        let filter = compile_filter("udp port 53").expect("good");
        let whole = packet(false);
        for len in 0..whole.len() {
            let enough = len >= 38;
            assert_eq!(wants(&filter, &whole[..len], 100), enough, "{len}");
        }
    }
}
