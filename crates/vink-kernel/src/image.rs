//! A private copy of an image in this process: found, loaded, checked.

use std::cmp::Reverse;
use std::ffi::{c_int, c_void, CStr, CString};
use std::fs::{self, File};
use std::mem::transmute_copy;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use vink_abi::{Counters, VINK_ABI_VERSION, VINK_NEVER};

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
/// the first of [`images`] that [has the name](name_of_image). A name may follow its version, and
/// that `linux-`: `kvs`, `6.1-kvs`, `linux-6.1-kvs`.
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
        if let Some((version, found)) = name_of_image(image) {
            if is_name(word, version, found) {
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

/// Whether `word` is what an image of this version and name may be called.
fn is_name(word: &str, version: &str, name: &str) -> bool {
    let own = word.strip_prefix("linux-").unwrap_or(word);
    let own = own
        .strip_prefix(version)
        .and_then(|end| end.strip_prefix('-'));
    word == name || own == Some(name)
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
        let exports = Exports::of(&handle).map_err(not_an_image)?;
        // SAFETY: any thread may call it at any time. What it returns is constant and begins with
        // the version, whatever that is; if it is ours, the rest is as abi.h says.
        let (release, version, text) = unsafe {
            let info = (exports.info)();
            let found = (*info).abi_version;
            if found != VINK_ABI_VERSION {
                return Err(Error::AbiVersion {
                    found,
                    wanted: VINK_ABI_VERSION,
                    path,
                });
            }
            let (release, version) = ((*info).release, (*info).version);
            (
                CStr::from_ptr(release),
                CStr::from_ptr(version),
                (*info).text_start as u64..(*info).text_end as u64,
            )
        };
        Ok(Image {
            release: release.to_string_lossy().into_owned(),
            version: version.to_string_lossy().into_owned(),
            code: Arc::new(Code {
                text,
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

    /// vink_run(): what it says, and a deadline. The mutable borrow is the token.
    #[inline]
    pub(crate) fn run(&mut self) -> (c_int, u64) {
        let mut deadline = VINK_NEVER;
        // SAFETY: with the token; fills the number. What it was booted with outlives it.
        let result = unsafe { (self.exports.run)(&mut deadline) };
        (result, deadline)
    }

    /// vink_call_cancel().
    pub(crate) fn call_cancel(&mut self, task: u64) -> c_int {
        // SAFETY: with the token; takes a number.
        unsafe { (self.exports.call_cancel)(task) }
    }

    /// vink_counters().
    pub(crate) fn counters(&mut self, counters: &mut Counters) -> c_int {
        // SAFETY: with the token; fills the structure.
        unsafe { (self.exports.counters)(counters) }
    }
}

macro_rules! exports {
    ($($name:ident: $kind:ident,)*) => {
        /// The addresses of the contract's functions.
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct Exports {
            $(pub $name: vink_abi::$kind,)*
        }

        impl Exports {
            fn of(image: &Handle) -> Result<Exports, String> {
                // SAFETY: the symbols are the contract's, which has no others of these names.
                unsafe {
                    Ok(Exports { $($name: image.symbol(concat!("vink_", stringify!($name)))?,)* })
                }
            }
        }
    };
}

exports! {
    info: InfoFn,
    boot: BootFn,
    run: RunFn,
    call_start: CallStartFn,
    call_cancel: CallCancelFn,
    fiber_call: FiberCallFn,
    fault: FaultFn,
    counters: CountersFn,
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
        let load = |namespace, flags| {
            let flags = libc::RTLD_NOW | libc::RTLD_LOCAL | flags;
            // SAFETY: a terminated string. The constructors of an image, if any, only touch the
            // image; and it depends on no library, so no second libc comes with it.
            let handle = unsafe { libc::dlmopen(namespace, name.as_ptr(), flags) };
            NonNull::new(handle).map(Handle)
        };
        let _loading = LOADER.lock().unwrap_or_else(PoisonError::into_inner);
        if load(libc::LM_ID_BASE, libc::RTLD_NOLOAD).is_none() {
            return load(libc::LM_ID_BASE, 0).ok_or_else(|| not_an_image(dlerror()));
        }
        // The file could be loaded once: only the number of copies can be wrong.
        load(libc::LM_ID_NEWLM, 0).ok_or_else(|| Error::TooManyImages {
            path: path.to_owned(),
            why: dlerror(),
        })
    }

    /// # Safety
    /// `F` is a type of pointers to functions, and the symbol of that name a function of this type.
    unsafe fn symbol<F>(&self, name: &str) -> Result<F, String> {
        let terminated = CString::new(name).expect("a name");
        // SAFETY: the handle is open. Pointers to functions and to data have one size here.
        let symbol = unsafe {
            let address = libc::dlsym(self.0.as_ptr(), terminated.as_ptr());
            NonNull::new(address).map(|address| transmute_copy(&address))
        };
        symbol.ok_or_else(|| format!("it has no {name}"))
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
    // SAFETY: the string, if there is one, is this thread's until its next call of the loader.
    let words = unsafe { libc::dlerror().as_ref().map(|words| CStr::from_ptr(words)) };
    match words {
        Some(words) => words.to_string_lossy().into_owned(),
        None => "the loader gives no reason".into(),
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
    fn a_version_may_come_first() {
        for word in ["kvs", "6.1-kvs", "linux-6.1-kvs"] {
            assert!(is_name(word, "6.1", "kvs"), "{word}");
        }
        for word in ["6.12-kvs", "linux-kvs", "6.1", "kvs-6.1"] {
            assert!(!is_name(word, "6.1", "kvs"), "{word}");
        }
        assert!(is_name("6.1", "6.1", "6.1"));
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
