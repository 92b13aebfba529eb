//! A private copy of an image in this process: found, loaded, checked.

use std::cmp::Reverse;
use std::ffi::{c_char, c_void, CStr, CString};
use std::fs::{self, File};
use std::mem::transmute_copy;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use vink_abi::{
    BootFn, CallCancelFn, CallStartFn, CountersFn, FaultFn, FiberCallFn, Info, InfoFn, RunFn,
    VINK_ABI_VERSION,
};

use crate::Error;

/// What [`images`] looks for.
const PREFIX: &str = "libvink-linux-";
const SUFFIX: &str = ".so";

/// The image to use by default: `$VINK_IMAGE` ([a name or a path](image_named)) if set, else the
/// first of [`images`] that has no name of its own.
///
/// # Errors
/// [`Error::NotFound`], [`Error::NoSuchName`].
pub fn find_image() -> Result<PathBuf, Error> {
    find_image_beside(std::env::current_exe().ok().as_deref())
}

/// The same, where what [`images`] looks for beside the executable is looked for beside this file.
///
/// # Errors
/// [`Error::NotFound`], [`Error::NoSuchName`].
pub fn find_image_beside(file: Option<&Path>) -> Result<PathBuf, Error> {
    let folders = folders(file);
    if let Some(name) = std::env::var_os("VINK_IMAGE") {
        return named_in(Path::new(&name), &folders);
    }
    let pattern = || format!("{PREFIX}[0-9.]*{SUFFIX}");
    let mut found = images_in(&folders).into_iter();
    // An image with a name of its own is used on request only.
    let found =
        found.find(|image| name_of_image(image).is_some_and(|(version, name)| version == name));
    found.ok_or_else(|| Error::NotFound {
        looked_at: folders.into_iter().map(|f| f.join(pattern())).collect(),
    })
}

/// The image of a name: the file of that path if there is one, else, for a word without a slash,
/// the first of [`images`] that [has the name](name_of_image).
///
/// # Errors
/// [`Error::NotFound`] for a path, [`Error::NoSuchName`] for a word.
pub fn image_named(name: &Path) -> Result<PathBuf, Error> {
    named_in(name, &folders(std::env::current_exe().ok().as_deref()))
}

fn named_in(name: &Path, folders: &[PathBuf]) -> Result<PathBuf, Error> {
    if name.is_file() {
        return Ok(name.to_owned());
    }
    let word = match name.to_str() {
        Some(word) if !word.contains('/') => word,
        _ => {
            return Err(Error::NotFound {
                looked_at: vec![name.to_owned()],
            })
        }
    };
    let images = images_in(folders);
    let mut known = Vec::new();
    for image in &images {
        if let Some((_, found)) = name_of_image(image) {
            if found == word {
                return Ok(image.clone());
            }
            if !known.iter().any(|other| other == found) {
                known.push(found.to_owned());
            }
        }
    }
    Err(Error::NoSuchName {
        name: word.to_owned(),
        known,
    })
}

/// What an image's file name says: its kernel's version and its own name, which for the package's
/// is the version.
pub fn name_of_image(image: &Path) -> Option<(&str, &str)> {
    let name = image.file_name()?.to_str()?;
    let name = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    Some(name.split_once('-').unwrap_or((name, name)))
}

/// Where kernel trees, objects and images with names are kept: `$VINK_CACHE`, by default
/// `~/.cache/vink`. None: neither that nor `$HOME` is set.
pub fn cache() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    match set("VINK_CACHE") {
        Some(cache) => Some(cache.into()),
        None => set("HOME").map(|home| Path::new(&home).join(".cache/vink")),
    }
}

/// All files named `libvink-linux-*.so`, in the order of preference: in `./build`, next to the
/// executable, in its `../../build` and `../lib/vink`, in [`cache`]`/images`; the newest kernel
/// first in each.
pub fn images() -> Vec<PathBuf> {
    images_in(&folders(std::env::current_exe().ok().as_deref()))
}

fn images_in(folders: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in folders {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        found.extend(in_order(names).into_iter().map(|name| folder.join(name)));
    }
    found
}

/// Those that name an image: the newest release first, of one release the plainest name first.
fn in_order(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut images: Vec<_> = names
        .filter_map(|name| {
            let release = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
            let numbers = release.split(['.', '-']).map_while(|n| n.parse().ok());
            Some((Reverse(numbers.collect::<Vec<u32>>()), name.len(), name))
        })
        .collect();
    images.sort();
    images.into_iter().map(|(.., name)| name).collect()
}

/// Those that are looked at for an executable or a library at `file`.
fn folders(file: Option<&Path>) -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::from("build")];
    if let Some(bin) = file.and_then(Path::parent) {
        folders.push(bin.to_owned());
        // Of an executable in target/release.
        folders.push(bin.join("../../build"));
        folders.push(bin.join("../lib/vink"));
    }
    folders.extend(cache().map(|cache| cache.join("images")));
    folders
}

/// One loaded copy of an image that has not booted: [`Kernel::boot`](crate::Kernel::boot) takes it.
/// Unloaded on drop.
#[derive(Debug)]
pub struct Image {
    _handle: Handle,
    path: PathBuf,
    release: String,
    version: String,
    pub(crate) code: Arc<Code>,
    pub(crate) exports: Exports,
}

/// Where an image's code lies, and where its symbols are.
#[derive(Debug)]
pub(crate) struct Code {
    /// Addresses in this process.
    pub text: Range<u64>,
    /// Of `vink_info`.
    pub info: u64,
    /// The file as it was when it was loaded, even if the path leads to another one by now.
    pub file: File,
}

/// The addresses of the contract's functions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exports {
    pub info: InfoFn,
    pub boot: BootFn,
    pub run: RunFn,
    pub call_start: CallStartFn,
    pub call_cancel: CallCancelFn,
    pub fiber_call: FiberCallFn,
    pub fault: FaultFn,
    pub counters: CountersFn,
}

impl Image {
    /// Loads a copy of its own of the image: with dlopen(3) if no other copy of the file is loaded,
    /// so that a debugger sees it as any library, else into a new link-map namespace (dlmopen(3)),
    /// of which glibc has 15 to give.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NotAnImage`], [`Error::AbiVersion`], [`Error::TooManyImages`].
    pub fn open(path: &Path) -> Result<Image, Error> {
        let looked_at = || Error::NotFound {
            looked_at: vec![path.to_owned()],
        };
        let path = path.canonicalize().map_err(|_| looked_at())?;
        let not_an_image = |why: String| Error::NotAnImage {
            path: path.clone(),
            why,
        };
        if !path.is_file() {
            return Err(not_an_image("it is no regular file".to_owned()));
        }
        let file = File::open(&path).map_err(|e| not_an_image(e.to_string()))?;
        let handle = Handle::open(&path)?;
        let symbol = |name: &CStr| handle.symbol(name).map_err(not_an_image);
        // SAFETY: the symbols are the contract's (it has no others of these names), and a FnN of
        // vink_abi is what abi.h says of each.
        let exports = unsafe {
            Exports {
                info: function(symbol(c"vink_info")?),
                boot: function(symbol(c"vink_boot")?),
                run: function(symbol(c"vink_run")?),
                call_start: function(symbol(c"vink_call_start")?),
                call_cancel: function(symbol(c"vink_call_cancel")?),
                fiber_call: function(symbol(c"vink_fiber_call")?),
                fault: function(symbol(c"vink_fault")?),
                counters: function(symbol(c"vink_counters")?),
            }
        };
        // SAFETY: any thread may call it at any time; what it returns is constant and has at least
        // its first two members, in any version of the contract.
        let info: *const Info = unsafe { (exports.info)() };
        // SAFETY: as above.
        let found = unsafe { (*info).abi_version };
        if found != VINK_ABI_VERSION {
            return Err(Error::AbiVersion {
                found,
                wanted: VINK_ABI_VERSION,
                path,
            });
        }
        // SAFETY: the version is ours, so the rest is as abi.h says.
        let info = unsafe { &*info };
        Ok(Image {
            release: text(info.release),
            version: text(info.version),
            code: Arc::new(Code {
                text: info.text_start as u64..info.text_end as u64,
                info: exports.info as usize as u64,
                file,
            }),
            _handle: handle,
            path,
            exports,
        })
    }

    /// The kernel's release, as `uname -r` has it.
    pub fn release(&self) -> &str {
        &self.release
    }

    /// The kernel's version, as `uname -v` has it.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The file, as an absolute path without symbolic links.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// # Safety
/// `F` is a fn pointer type, `address` a function of that type.
unsafe fn function<F>(address: NonNull<c_void>) -> F {
    // SAFETY: pointers to functions and to data have one size here; the rest by contract.
    unsafe { transmute_copy(&address) }
}

fn text(string: *const c_char) -> String {
    // SAFETY: abi.h: NUL-terminated and constant.
    unsafe { CStr::from_ptr(string) }
        .to_string_lossy()
        .into_owned()
}

/// What dlopen(3) gave.
#[derive(Debug)]
struct Handle(NonNull<c_void>);

// SAFETY: glibc's loader takes its handles from any thread.
unsafe impl Send for Handle {}

/// Two threads must not both find that no copy is loaded.
static LOADER: Mutex<()> = Mutex::new(());

impl Handle {
    fn open(path: &Path) -> Result<Handle, Error> {
        let not_an_image = |why| Error::NotAnImage {
            path: path.to_owned(),
            why,
        };
        let name = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| not_an_image("its name has a NUL byte".into()))?;
        let flags = libc::RTLD_NOW | libc::RTLD_LOCAL;
        let _loading = LOADER.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: `name` is NUL-terminated; nothing is loaded.
        let loaded = unsafe { libc::dlopen(name.as_ptr(), flags | libc::RTLD_NOLOAD) };
        let Some(loaded) = NonNull::new(loaded) else {
            // SAFETY: as above. The constructors of an image, if any, only touch the image.
            let handle = unsafe { libc::dlopen(name.as_ptr(), flags) };
            return NonNull::new(handle)
                .map(Handle)
                .ok_or_else(|| not_an_image(dlerror()));
        };
        drop(Handle(loaded));
        // SAFETY: as above; an image depends on no library, so no second libc comes with it.
        let handle = unsafe { libc::dlmopen(libc::LM_ID_NEWLM, name.as_ptr(), flags) };
        // The file could be loaded once: only the number of copies can be wrong.
        NonNull::new(handle)
            .map(Handle)
            .ok_or_else(|| Error::TooManyImages {
                path: path.to_owned(),
                why: dlerror(),
            })
    }

    fn symbol(&self, name: &CStr) -> Result<NonNull<c_void>, String> {
        // SAFETY: the handle is open, the name NUL-terminated.
        let address = unsafe { libc::dlsym(self.0.as_ptr(), name.as_ptr()) };
        NonNull::new(address).ok_or_else(|| format!("it has no {}", name.to_string_lossy()))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: open, and closed once; its owner uses nothing of it any more.
        unsafe { libc::dlclose(self.0.as_ptr()) };
    }
}

/// The loader's last words on this thread.
fn dlerror() -> String {
    // SAFETY: the string is this thread's until its next call of the loader.
    let words = unsafe { libc::dlerror() };
    match words.is_null() {
        true => "the loader gives no reason".into(),
        false => text(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_version_or_what_follows_it() {
        let of = |path| name_of_image(Path::new(path));
        assert_eq!(of("a/libvink-linux-6.12.so"), Some(("6.12", "6.12")));
        assert_eq!(
            of("libvink-linux-6.12-ack-division.so"),
            Some(("6.12", "ack-division"))
        );
        assert_eq!(of("libvink.so"), None);
    }

    #[test]
    fn newer_releases_and_plainer_names_come_first() {
        let wanted = ["6.12.so", "6.12-mine.so", "6.9.so", "6.1.so"];
        let wanted = wanted.map(|end| format!("libvink-linux-{end}"));
        let names = wanted
            .iter()
            .rev()
            .cloned()
            .chain(["libvink.so".into(), "README".into()]);
        assert_eq!(in_order(names), wanted);
    }
}
