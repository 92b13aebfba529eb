//! Instructions whose distance to something, or whose number, has the bytes of one that opens keys, by
//! chance: they are made to have another one.
//!
//! Linkers know nothing of keys: in 40 MB of code, two or three calls are as far from where they go as
//! such bytes say. A call or a jump goes to a stub in a page of its own, which jumps to where it went;
//! what it returns to, and what unwinds it, is as it was. Another instruction that has the address of
//! something is done in the stub, which jumps back. So is one that loads a number (of the 64 bits of a
//! hash, say): the stub loads its complement, and complements that. Which instruction has the bytes is
//! found by decoding its function from the start, which the table has by which exceptions are unwound.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use iced_x86::{Code, Decoder, DecoderOptions, Instruction};

use vink_sys::maps::MapsLine;

use super::poke::poke;

const PAGE: u64 = 4096;
/// Bytes of a function that are decoded.
const FUNCTION: u64 = 4 << 20;

/// Makes the instruction that has such bytes at this address another one, if it `patches`.
///
/// # Errors
/// A sentence: why it can't be.
pub(super) fn redirect(memory: &File, at: u64, patches: bool) -> Result<(), String> {
    let failed = |error: io::Error| format!("changing it: {error}");
    let (start, end) = function(at).ok_or("pods could jump there")?;
    let mut bytes = vec![0; (end - start).min(FUNCTION) as usize];
    memory.read_exact_at(&mut bytes, start).map_err(failed)?;
    let found = instruction(&bytes, start, at)?;
    // Near enough for this.
    found.by(found.at)?;
    if patches {
        let stub = page_near(at)?;
        let (instead, code) = found.by(stub)?;
        memory.write_all_at(&code, stub).map_err(failed)?;
        poke(memory, found.at, &instead)?;
    }
    Ok(())
}

/// An instruction in its place.
struct Found<'a> {
    at: u64,
    bytes: &'a [u8],
    decoded: Instruction,
    /// Where its displacement is among the bytes, if that has four.
    displacement: Option<usize>,
    /// Where its number is.
    immediate: Range<usize>,
}

/// That which has these three bytes, in a function's code.
fn instruction(code: &[u8], start: u64, at: u64) -> Result<Found<'_>, String> {
    let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    while decoder.can_decode() {
        let decoded = decoder.decode();
        if decoded.is_invalid() {
            break;
        }
        if decoded.next_ip() <= at {
            continue;
        }
        if at < decoded.ip() || decoded.next_ip() < at + 3 {
            return Err("they are of two instructions".to_owned());
        }
        let offsets = decoder.get_constant_offsets(&decoded);
        let from = (decoded.ip() - start) as usize;
        return Ok(Found {
            at: decoded.ip(),
            bytes: &code[from..from + decoded.len()],
            decoded,
            displacement: (offsets.displacement_size() == 4).then(|| offsets.displacement_offset()),
            immediate: offsets.immediate_offset()
                ..offsets.immediate_offset() + offsets.immediate_size(),
        });
    }
    Err("its function can't be decoded".to_owned())
}

impl Found<'_> {
    /// What is to be there instead, and at the stub.
    fn by(&self, stub: u64) -> Result<(Vec<u8>, Vec<u8>), String> {
        let after = self.at + self.bytes.len() as u64;
        // As long as it was.
        let to_stub = |opcode: &[u8]| -> Result<Vec<u8>, String> {
            let end = self.at + opcode.len() as u64 + 4;
            let mut bytes = [opcode, &near(end, stub)?].concat();
            bytes.resize(self.bytes.len(), NOP);
            Ok(bytes)
        };
        let jump = |from: u64, to: u64| -> Result<Vec<u8>, String> {
            Ok([&[JUMP], &near(from + 5, to)?[..]].concat())
        };
        let in_stub = |mut code: Vec<u8>| {
            code.extend(jump(stub + code.len() as u64, after)?);
            Ok((to_stub(&[JUMP])?, code))
        };
        let decoded = &self.decoded;
        let is_relative = decoded.is_ip_rel_memory_operand();
        match (decoded.code(), self.bytes) {
            (Code::Call_rel32_64 | Code::Jmp_rel32_64, [opcode, _, _, _, _]) => {
                Ok((to_stub(&[*opcode])?, jump(stub, decoded.near_branch64())?))
            }
            (_, [first @ 0x0f, second @ 0x80..=0x8f, _, _, _, _]) => {
                let to = jump(stub, decoded.near_branch64())?;
                Ok((to_stub(&[*first, *second])?, to))
            }
            // With a prefix that says nothing, so that it returns to the same place.
            (Code::Call_rm64 | Code::Jmp_rm64, [_, _, _, _, _, _]) if is_relative => {
                let is_call = decoded.code() == Code::Call_rm64;
                let instead = to_stub(&[0x67, if is_call { CALL } else { JUMP }])?;
                let word = near(stub + 6, decoded.ip_rel_memory_address())?;
                Ok((instead, [&[0xff, 0x25], &word[..]].concat()))
            }
            (Code::Call_rm64 | Code::Jmp_rm64, _) => Err(NUMBER.to_owned()),
            (Code::Mov_r32_imm32 | Code::Mov_r64_imm64, bytes) => {
                let number = self.immediate.clone();
                let (prefixes, opcode) = (&bytes[..number.start - 1], bytes[number.start - 1]);
                let mut code = bytes.to_vec();
                code[number].iter_mut().for_each(|byte| *byte = !*byte);
                // not REGISTER, which changes no flags.
                code.extend(prefixes);
                code.extend([0xf7, 0xd0 | opcode & 7]);
                in_stub(code)
            }
            _ => {
                let displacement = self.displacement.filter(|_| is_relative).ok_or(NUMBER)?;
                let mut code = self.bytes.to_vec();
                let end = stub + code.len() as u64;
                let far = near(end, decoded.ip_rel_memory_address())?;
                code[displacement..displacement + 4].copy_from_slice(&far);
                in_stub(code)
            }
        }
    }
}

const CALL: u8 = 0xe8;
const JUMP: u8 = 0xe9;
const NOP: u8 = 0x90;
const NUMBER: &str = "they are no distance and no number that is loaded, and pods could jump there";

/// How far it is, for an instruction that ends at the first address.
pub(super) fn near(from: u64, to: u64) -> Result<[u8; 4], String> {
    let far = to.wrapping_sub(from) as i64;
    let far = i32::try_from(far).map_err(|_| "no page near it is free".to_owned())?;
    Ok(far.to_le_bytes())
}

/// A new page that can be executed, in reach of what is here.
pub(super) fn page_near(at: u64) -> Result<u64, String> {
    let maps = std::fs::read_to_string("/proc/self/maps");
    let maps = maps.map_err(|error| format!("a page near it: {error}"))?;
    for place in free(&maps, at) {
        let access = libc::PROT_READ | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let wish = place as *mut c_void;
        // SAFETY: a new page, where nothing is.
        let page = unsafe { libc::mmap(wish, PAGE as usize, access, flags, -1, 0) };
        if page == wish {
            return Ok(place);
        }
    }
    Err("no page near it is free".to_owned())
}

/// Addresses of pages before mappings, the nearest first, with one between. A stack may grow.
fn free(maps: &str, at: u64) -> Vec<u64> {
    let mut places = Vec::new();
    let mut end = 1 << 20;
    for line in maps.lines().filter_map(MapsLine::of) {
        let place = line.range.start.saturating_sub(2 * PAGE);
        if place >= end + 2 * PAGE && !line.name.ends_with(']') && place.abs_diff(at) < 1 << 30 {
            places.push(place);
        }
        end = line.range.end;
    }
    places.sort_by_key(|place| place.abs_diff(at));
    places
}

/// Where the function begins and ends that this address is in.
fn function(at: u64) -> Option<(u64, u64)> {
    struct Search {
        at: u64,
        found: Option<(u64, u64)>,
    }
    unsafe extern "C" fn object(
        info: *mut libc::dl_phdr_info,
        _: usize,
        search: *mut c_void,
    ) -> c_int {
        // SAFETY: all are valid, by the call below and what it calls; what an object says of itself is
        // mapped.
        unsafe {
            let (info, search) = (&*info, &mut *search.cast::<Search>());
            let headers = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
            let place = |header: &libc::Elf64_Phdr| {
                let start = info.dlpi_addr + header.p_vaddr;
                start..start + header.p_memsz
            };
            let has = |header: &&libc::Elf64_Phdr| {
                header.p_type == libc::PT_LOAD && place(header).contains(&search.at)
            };
            if headers.iter().find(has).is_none() {
                return 0;
            }
            let table = headers.iter().find(|it| it.p_type == libc::PT_GNU_EH_FRAME);
            search.found = table.and_then(|table| unwound(place(table), search.at));
        }
        1
    }
    let mut search = Search { at, found: None };
    // SAFETY: the function writes to this.
    unsafe { libc::dl_iterate_phdr(Some(object), (&raw mut search).cast()) };
    search.found
}

/// The same by a table of an object's (`.eh_frame_hdr`).
///
/// # Safety
/// It is mapped, with what it is about.
unsafe fn unwound(table: Range<u64>, at: u64) -> Option<(u64, u64)> {
    // SAFETY: by contract.
    let word = |at: u64| unsafe { (at as *const u32).read_unaligned() };
    let beside = |at: u64, base: u64| base.wrapping_add_signed(i64::from(word(at) as i32));
    // Version 1; a distance; a number of four bytes; distances from the table, sorted.
    if word(table.start).to_le_bytes() != [1, 0x1b, 0x03, 0x3b] {
        return None;
    }
    let count = u64::from(word(table.start + 8)).min((table.end - table.start - 12) / 8);
    let entry = |n: u64| table.start + 12 + 8 * n;
    let (mut from, mut to) = (0, count);
    while from < to {
        let middle = (from + to) / 2;
        match beside(entry(middle), table.start) <= at {
            true => from = middle + 1,
            false => to = middle,
        }
    }
    let last = entry(from.checked_sub(1)?);
    let (start, about) = (beside(last, table.start), beside(last + 4, table.start));
    // Where it begins, as a distance, and how many bytes it has.
    let end = start + u64::from(word(about + 12));
    (beside(about + 8, about + 8) == start && at < end).then_some((start, end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::scan::find;

    const AT: u64 = 0x5555_0000_1000;
    const STUB: u64 = 0x5554_ffff_0000;

    fn decoded(bytes: &[u8], at: u64) -> Vec<Instruction> {
        Decoder::with_ip(64, bytes, at, DecoderOptions::NONE)
            .into_iter()
            .collect()
    }

    /// Behind an instruction, so that it is not the first one.
    fn by(bytes: &[u8], hit: u64) -> Result<(Vec<u8>, Vec<u8>), String> {
        let code = [&[0x90, 0x90], bytes, &[0xc3]].concat();
        let found = instruction(&code, AT - 2, AT + hit)?;
        assert_eq!((found.at, found.bytes), (AT, bytes));
        found.by(STUB)
    }

    #[test]
    fn calls_and_jumps_go_by_a_stub() {
        for (bytes, hit) in [
            (&[0xe8, 0x0f, 0xae, 0x2b, 0x00][..], 1),
            (&[0xe9, 0x0f, 0x01, 0xef, 0x00], 1),
            (&[0xe9, 0x00, 0x0f, 0xae, 0xe8 & 0x28], 2),
            (&[0x0f, 0x84, 0x0f, 0x01, 0xef, 0x00], 2),
        ] {
            let before = decoded(bytes, AT)[0];
            let (instead, stub) = by(bytes, hit).unwrap();
            let [after, stub] = [(&instead, AT), (&stub, STUB)].map(|(it, at)| decoded(it, at));
            assert_eq!(
                (after[0].code(), after[0].len()),
                (before.code(), bytes.len())
            );
            assert_eq!(after[0].near_branch64(), STUB);
            assert_eq!(stub[0].code(), Code::Jmp_rel32_64);
            assert_eq!(stub[0].near_branch64(), before.near_branch64());
        }
        for (bytes, code) in [
            ([0xff, 0x15, 0x0f, 0xae, 0x6a, 0x01], Code::Call_rel32_64),
            ([0xff, 0x25, 0x0f, 0x01, 0xef, 0xff], Code::Jmp_rel32_64),
        ] {
            let before = decoded(&bytes, AT)[0];
            let (instead, stub) = by(&bytes, 2).unwrap();
            let [after, stub] = [(&instead, AT), (&stub, STUB)].map(|(it, at)| decoded(it, at));
            assert_eq!((after[0].code(), after[0].len()), (code, 6));
            assert_eq!(after[0].near_branch64(), STUB);
            assert_eq!(stub[0].code(), Code::Jmp_rm64);
            let word = [stub[0], before].map(|it| it.ip_rel_memory_address());
            assert_eq!(word[0], word[1]);
        }
    }

    #[test]
    fn what_has_an_address_is_done_in_the_stub() {
        for (bytes, hit) in [
            // lea, mov, cmp with a number behind, a vector's with a long opcode.
            (&[0x48, 0x8d, 0x05, 0x0f, 0xae, 0x28, 0x00][..], 3),
            (&[0x48, 0x8b, 0x0d, 0x0f, 0x01, 0xef, 0x00], 3),
            (&[0x80, 0x3d, 0x0f, 0xae, 0x68, 0x00, 0x07], 2),
            (&[0x66, 0x0f, 0x6f, 0x05, 0x0f, 0xae, 0x28, 0x01], 4),
        ] {
            let before = decoded(bytes, AT)[0];
            let (instead, stub) = by(bytes, hit).unwrap();
            let [after, stub] = [(&instead, AT), (&stub, STUB)].map(|(it, at)| decoded(it, at));
            assert_eq!(
                (after[0].near_branch64(), instead.len()),
                (STUB, bytes.len())
            );
            assert!(after[1..].iter().all(|it| it.code() == Code::Nopd));
            let (same, back) = (stub[0], stub[1]);
            assert_eq!((same.code(), same.len()), (before.code(), before.len()));
            assert_eq!(same.ip_rel_memory_address(), before.ip_rel_memory_address());
            assert_eq!(back.near_branch64(), AT + bytes.len() as u64);
        }
    }

    #[test]
    fn numbers_are_loaded_by_their_complement() {
        for (bytes, hit) in [
            // rcx, r9, ecx and r9d.
            (
                &[0x48, 0xb9, 0x0f, 0xae, 0x6c, 0x24, 0x40, 0xa9, 0x00, 0x02][..],
                2,
            ),
            (&[0x49, 0xb9, 1, 2, 3, 4, 5, 0x0f, 0x01, 0xef], 7),
            (&[0xb9, 0x0f, 0x01, 0xef, 0x00], 1),
            (&[0x41, 0xb9, 0x80, 0x0f, 0xae, 0x28], 3),
        ] {
            let before = decoded(bytes, AT)[0];
            let (instead, stub) = by(bytes, hit).unwrap();
            assert!(find(&instead).next().is_none() && find(&stub).next().is_none());
            let [after, stub] = [(&instead, AT), (&stub, STUB)].map(|(it, at)| decoded(it, at));
            assert_eq!(
                (after[0].near_branch64(), instead.len()),
                (STUB, bytes.len())
            );
            let [load, not, back] = stub[..] else {
                panic!("{stub:?}");
            };
            let (is_wide, number) = match before.code() {
                Code::Mov_r64_imm64 => (true, !load.immediate64()),
                _ => (false, u64::from(!load.immediate32())),
            };
            assert_eq!((load.code(), number), (before.code(), before.immediate(1)));
            let complement = if is_wide {
                Code::Not_rm64
            } else {
                Code::Not_rm32
            };
            assert_eq!(not.code(), complement);
            assert_eq!(
                [load, not].map(|it| it.op0_register()),
                [before.op0_register(); 2]
            );
            assert_eq!(back.near_branch64(), AT + bytes.len() as u64);
        }
    }

    #[test]
    fn what_is_no_distance_stays() {
        for (bytes, hit, why) in [
            // cmp with a number, a displacement of a register's, wrpkru, add behind another one.
            (&[0x3d, 0x0f, 0x01, 0xef, 0x00][..], 1, NUMBER),
            (&[0x8b, 0x80, 0x0f, 0xae, 0x28, 0x00], 2, NUMBER),
            (&[0xff, 0x90, 0x0f, 0xae, 0x28, 0x00], 2, NUMBER),
            (&[0x0f, 0x01, 0xef], 0, NUMBER),
            (&[0xb0, 0x0f], 1, "two instructions"),
        ] {
            let said = by(bytes, hit).unwrap_err();
            assert!(said.contains(why), "{bytes:x?}: {said}");
        }
        let said = instruction(&[0x06], AT, AT).map(drop).unwrap_err();
        assert!(said.contains("can't be decoded"), "{said}");
    }

    #[test]
    fn functions_are_where_they_begin() {
        let own = functions_are_where_they_begin as fn() as usize as u64;
        assert_eq!(function(own).unwrap().0, own);
        assert_eq!(function(own + 9).unwrap().0, own);
        // SAFETY: looks a name up.
        let libc = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"strtoull".as_ptr()) } as u64;
        assert_eq!(function(libc + 1).unwrap().0, libc);
        assert_eq!(function(7), None);
        assert_eq!(function(&raw const own as u64), None);
    }

    #[test]
    fn pages_are_free_and_near() {
        let maps = "500000000-500010000 r-xp 0 00:00 0 /a\n\
                    500011000-500020000 r--p 0 00:00 0 /a\n\
                    500030000-500040000 rw-p 0 00:00 0 [heap]\n\
                    530000000-530001000 rw-p 0 00:00 0\n\
                    7f0000000000-7f0000001000 r-xp 0 00:00 0 /b\n";
        assert_eq!(free(maps, 0x5_0000_8000), [0x4_ffff_e000, 0x5_2fff_e000]);
        let own = pages_are_free_and_near as fn() as usize as u64;
        let page = page_near(own).unwrap();
        assert!(near(own, page).is_ok() && page.is_multiple_of(PAGE));
        // SAFETY: the page above.
        unsafe { libc::munmap(page as *mut c_void, PAGE as usize) };
    }
}
