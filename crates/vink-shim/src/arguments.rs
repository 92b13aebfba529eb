//! What programs pass to functions of the C library, as safe types.
//!
//! That it is as those functions' man pages ask for is the program's word, and is taken over where a
//! backend has a method of the function: what that uses is made of its arguments ([`Given`]).

use std::cell::Cell;
use std::ffi::{c_char, c_void, CStr};
use std::marker::PhantomData;

use libc::{iovec, sigset_t, size_t};

/// Nothing is mapped below: a program with such a pointer is to get its `EFAULT`.
const LOWEST: usize = 4096;
/// The kernel's half of the addresses begins there.
const END: usize = 1 << 47;

/// The signals that are blocked while a call waits, as the kernel has them: the C library's set
/// begins so. `None`: they are as they are.
pub type Mask<'a> = Option<&'a u64>;

/// What is made of a function's arguments.
pub trait Given<T> {
    /// # Safety
    /// The program has passed them, and the function may use what they point to.
    unsafe fn given(arguments: T) -> Self;
}

/// A structure, if there is one.
impl<T> Given<*const T> for Option<&T> {
    #[inline]
    unsafe fn given(at: *const T) -> Self {
        // SAFETY: by the caller.
        unsafe { at.as_ref() }
    }
}

/// Signals that are blocked meanwhile.
impl Given<*const sigset_t> for Mask<'_> {
    #[inline]
    unsafe fn given(at: *const sigset_t) -> Self {
        // SAFETY: by the caller; the set is longer.
        unsafe { at.cast::<u64>().as_ref() }
    }
}

/// A structure that the call may change, if there is one.
impl<T> Given<*mut T> for Option<&mut T> {
    unsafe fn given(at: *mut T) -> Self {
        // SAFETY: by the caller.
        unsafe { at.as_mut() }
    }
}

/// Structures; `None`: the host had better read that memory.
impl<T, N: TryInto<usize>> Given<(*const T, N)> for Option<&[T]> {
    #[inline]
    unsafe fn given((at, count): (*const T, N)) -> Self {
        let count = count_of::<T>(at as usize, count)?;
        // SAFETY: by the caller, there are so many.
        Some(unsafe { std::slice::from_raw_parts(at, count) })
    }
}

/// Structures that a call may change. Each use looks at them anew: between two, the host may have
/// changed them.
pub struct Array<T> {
    at: *mut T,
    /// `None`: the host had better read that memory.
    count: Option<usize>,
}

impl<T, N: TryInto<usize>> Given<(*mut T, N)> for Array<T> {
    #[inline]
    unsafe fn given((at, count): (*mut T, N)) -> Self {
        let count = count_of::<T>(at as usize, count);
        Array { at, count }
    }
}

impl<T> Array<T> {
    /// All of them; `None`: the host had better read that memory.
    #[inline]
    pub fn get(&mut self) -> Option<&mut [T]> {
        // SAFETY: there are so many, by the word of the program that has given them.
        Some(unsafe { std::slice::from_raw_parts_mut(self.at, self.count?) })
    }
}

/// How many structures there are, of which the kernel takes less than 2 GiB; less than none are
/// none.
#[inline]
fn count_of<T>(at: usize, count: impl TryInto<usize>) -> Option<usize> {
    let count = count.try_into().unwrap_or(0);
    (at >= LOWEST && count <= i32::MAX as usize / size_of::<T>()).then_some(count)
}

/// Bytes that are sent, or room for those that are received.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Part(iovec);

impl Given<(*mut c_void, size_t)> for [Part; 1] {
    #[inline]
    unsafe fn given((iov_base, iov_len): (*mut c_void, size_t)) -> Self {
        [Part(iovec { iov_base, iov_len })]
    }
}

impl Part {
    /// Where they are.
    #[inline]
    pub fn address(&self) -> u64 {
        self.0.iov_base as u64
    }

    /// How many bytes.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "nothing asks for that")]
    pub fn len(&self) -> usize {
        self.0.iov_len
    }

    /// Whether it is where a program may have memory: not near null, and not the kernel's. The
    /// kernel reports those.
    #[inline]
    pub fn may_be_mapped(&self) -> bool {
        let at = self.0.iov_base as usize;
        at >= LOWEST && at.checked_add(self.len()).is_some_and(|end| end < END)
    }

    /// Copies it to the beginning of that room; how many bytes. `None`: there are more.
    #[inline]
    pub fn copy_to(&self, room: &[Cell<u8>]) -> Option<usize> {
        let len = self.len();
        let to = room.get(..len)?.as_ptr().cast_mut();
        // SAFETY: the program's own bytes, by its word; there is room for them.
        unsafe { std::ptr::copy_nonoverlapping(self.0.iov_base.cast(), to, len) };
        Some(len)
    }

    /// Copies as many of these bytes as there is room for; how many.
    #[inline]
    pub fn copy_from(&self, bytes: &[Cell<u8>]) -> usize {
        let len = self.len().min(bytes.len());
        // SAFETY: the program's own room, by its word; so many bytes are there.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.0.iov_base.cast(), len) };
        len
    }
}

/// A string of C's, or null.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Text<'a>(*const c_char, PhantomData<&'a CStr>);

impl Given<*const c_char> for Text<'_> {
    unsafe fn given(at: *const c_char) -> Self {
        Text(at, PhantomData)
    }
}

impl<'a> From<&'a CStr> for Text<'a> {
    fn from(text: &'a CStr) -> Text<'a> {
        Text(text.as_ptr(), PhantomData)
    }
}

impl<'a> Text<'a> {
    /// As C has it.
    pub fn as_ptr(self) -> *const c_char {
        self.0
    }

    /// `None`: it is null.
    pub fn bytes(self) -> Option<&'a [u8]> {
        // SAFETY: a string otherwise, by the program's word.
        (!self.0.is_null()).then(|| unsafe { CStr::from_ptr(self.0) }.to_bytes())
    }
}

/// An array of strings that ends with a null pointer, as of main()'s; null: of none.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Texts<'a>(*const Text<'a>);

impl Given<*mut *mut c_char> for Texts<'_> {
    unsafe fn given(at: *mut *mut c_char) -> Self {
        Texts(at.cast_const().cast())
    }
}

impl<'a> Texts<'a> {
    /// Of a list that ends with a null pointer.
    pub fn of(list: &'a [Text<'a>]) -> Option<Texts<'a>> {
        let last = list.last().filter(|last| last.0.is_null());
        last.map(|_| Texts(list.as_ptr()))
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = Text<'a>> {
        let mut at = self.0;
        std::iter::from_fn(move || {
            // SAFETY: null, or a place in the array: none after its end.
            let text = unsafe { at.as_ref() }.filter(|text| !text.0.is_null())?;
            at = at.wrapping_add(1);
            Some(*text)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null;

    #[test]
    fn what_is_not_right_is_left_to_the_kernel() {
        assert_eq!(count_of::<u64>(LOWEST, 3), Some(3));
        assert_eq!(count_of::<u64>(LOWEST, -1), Some(0));
        assert_eq!(count_of::<u64>(LOWEST, u64::MAX), None);
        assert_eq!(count_of::<u64>(LOWEST - 1, 3), None);
    }

    #[test]
    fn texts_end_with_null() {
        let end = Text(null(), PhantomData);
        let list = [c"a".into(), c"".into(), end, c"b".into(), end];
        let all = Texts::of(&list).expect("it ends").iter();
        assert_eq!(
            all.map(Text::bytes).collect::<Vec<_>>(),
            [Some(&b"a"[..]), Some(b"")]
        );
        assert!(Texts::of(&list[..4]).is_none() && Texts::of(&[]).is_none());
        assert_eq!((Texts(null()).iter().count(), end.bytes()), (0, None));
    }
}
