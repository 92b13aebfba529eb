//! What becomes of a function's call.

use crate::types::*;

/// Arguments of a system call, of which the rest are 0.
#[inline(always)]
pub fn args<const N: usize>(given: [u64; N]) -> [u64; 6] {
    let mut args = [0u64; 6];
    args[..N].copy_from_slice(&given);
    args
}

macro_rules! methods {
    ([$($($more:tt)+)?] $(
        $abi:literal $name:ident = $nr:ident($($arg:ident: $type:ty),*) -> $result:ty
            $(, [$($given:expr),*])?;
    )*) => {
        /// What is behind the functions of a library. Each function of the table has a method of its
        /// name, for a backend that has more to do than the call; `next` is the C library's.
        pub trait Backend {
            /// The system call that a function is: what the function returns, with its errno.
            fn call(nr: i64, args: [u64; 6], next: impl FnOnce() -> i64) -> i64;

            $(
                /// # Safety
                /// As the function's man page has it.
                #[inline(always)]
                unsafe fn $name($($arg: $type,)* next: impl FnOnce() -> $result) -> $result {
                    Self::call(
                        libc::$nr,
                        methods!(@args ($($arg),*) $([$($given),*])?),
                        || next() as i64,
                    ) as $result
                }
            )*
        }
    };
    (@args ($($arg:expr),*)) => { args([$($arg as u64),*]) };
    (@args ($($arg:expr),*) [$($given:expr),*]) => { args([$($given as u64),*]) };
}
crate::functions!([methods]);

/// Makes a library's symbols: `symbols!(MyBackend)`, or `symbols!(MyBackend, sockets)` with those of
/// [`socket_functions!`](crate::socket_functions). Once in a library, in the
/// module of the backend.
#[macro_export]
macro_rules! symbols {
    ($backend:ident $(, $sockets:ident)?) => {
        mod c_functions {
            use $crate::types::*;
            use $crate::Backend;

            use super::$backend;

            $crate::functions!([$crate::function_symbols] $backend);
            $crate::variants!([$crate::variant_symbols] $backend);
            $($crate::socket_symbols!($backend $sockets);)?
        }
    };
}

/// Those that are a system call, and a method of the backend.
#[doc(hidden)]
#[macro_export]
macro_rules! function_symbols {
    ([$backend:ident] $(
        $abi:literal $name:ident = $nr:ident($($arg:ident: $type:ty),*) -> $result:ty
            $(, [$($given:expr),*])?;
    )*) => {
        $(
            #[no_mangle]
            unsafe extern $abi fn $name($($arg: $type),*) -> $result {
                let next = || $crate::next!($abi $name($($arg: $type),*) -> $result);
                // SAFETY: by the caller, a program that passes what the man page asks for.
                unsafe { <$backend as Backend>::$name($($arg,)* next) }
            }
        )*
    };
}

/// Those that are a function of the table, if a condition holds.
#[doc(hidden)]
#[macro_export]
macro_rules! variant_symbols {
    ([$backend:ident] $(
        $abi:literal $name:ident = $base:ident($($arg:ident: $type:ty),*
            $(; $room:ident: $room_type:ty; $($last:ident: $last_type:ty),*)?) -> $result:ty, $fits:expr;
    )*) => {
        $(
            #[no_mangle]
            unsafe extern $abi fn $name($($arg: $type),* $(, $room: $room_type $(, $last: $last_type)*)?)
                -> $result
            {
                let next = || {
                    $crate::next!($abi $name($($arg: $type),* $(, $room: $room_type $(, $last: $last_type)*)?)
                        -> $result)
                };
                if !$fits {
                    return next();
                }
                // SAFETY: by the caller, a program that passes what the man page asks for.
                unsafe { <$backend as Backend>::$base($($arg,)* $($($last,)*)? next) }
            }
        )*
    };
}

/// Those that are their system call and no more.
#[doc(hidden)]
#[macro_export]
macro_rules! socket_symbols {
    ($backend:ident sockets) => {
        $crate::socket_functions!([$crate::socket_symbols] $backend);
    };
    ([$backend:ident] $(
        $abi:literal $name:ident = $nr:ident($($arg:ident: $type:ty),*) -> $result:ty;
    )*) => {
        $(
            #[no_mangle]
            unsafe extern $abi fn $name($($arg: $type),*) -> $result {
                let next = || $crate::next!($abi $name($($arg: $type),*) -> $result) as i64;
                let args = $crate::args([$($arg as u64),*]);
                <$backend as Backend>::call($crate::libc::$nr, args, next) as $result
            }
        )*
    };
}
