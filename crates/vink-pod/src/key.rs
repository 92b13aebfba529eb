//! The key wall: a pod in pages that the processor's protection keys set apart. What it needs of the host.

use vink_sys::procfs::{kernel_release, kernel_version};

use crate::{LoadError, Wall};

/// Whether the host has what it takes: a line about it, or what is missing.
///
/// # Errors
/// The processor has no keys or Linux is too old, which are told of both, or this Vink does not have the
/// wall.
pub fn probe() -> Result<String, String> {
    let release = kernel_release().map_err(|error| error.to_string())?;
    missing(has_protection_keys(), &release)?;
    Err("not built yet: the processor has keys, and Linux is new enough".to_owned())
}

/// Loads no pod yet.
///
/// # Errors
/// [`LoadError::Host`].
pub(crate) fn load() -> LoadError {
    let why = match probe() {
        Ok(why) | Err(why) => why,
    };
    LoadError::Host {
        wall: Wall::Key,
        why: format!("{why}; the process wall takes the same pods"),
    }
}

/// Whether the host's kernel has switched them on: OSPKE, bit 4 of ECX in leaf 7 of CPUID, which the
/// processor sets when CR4.PKE is. pkey_alloc(2) may fail for other reasons, and a flag in /proc/cpuinfo
/// may be another processor's.
fn has_protection_keys() -> bool {
    const OSPKE: u32 = 1 << 4;
    let leaves = std::arch::x86_64::__cpuid(0).eax;
    leaves >= 7 && std::arch::x86_64::__cpuid_count(7, 0).ecx & OSPKE != 0
}

fn missing(has_keys: bool, release: &str) -> Result<(), String> {
    let mut missing = Vec::new();
    if !has_keys {
        missing.push(
            "the processor has no keys, or the host does not let them through (OSPKE in CPUID)"
                .to_owned(),
        );
    }
    // Before, the kernel could not write a signal's frame while a pod ran.
    if kernel_version(release) < (Some(6), Some(12)) {
        missing.push(format!("Linux {release} is older than 6.12"));
    }
    match missing.is_empty() {
        true => Ok(()),
        false => Err(missing.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said() {
        for (release, is_new) in [
            ("6.12.0", true),
            ("6.12-rc1", true),
            ("7.0.3-amd64", true),
            ("6.11.9", false),
            ("5.19.0-50-generic", false),
            ("", false),
        ] {
            assert_eq!(missing(true, release).is_ok(), is_new, "{release}");
            let said = missing(false, release).expect_err(release);
            assert!(said.contains("no keys"), "{said}");
            assert_eq!(!said.contains("older than 6.12"), is_new, "{said}");
        }
    }
}
