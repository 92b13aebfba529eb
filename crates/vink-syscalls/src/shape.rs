//! What a parameter of a system call is, for those that print it.

/// What a parameter is. Numbers in it are the indices of other parameters of the same call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A signed number.
    Int,
    /// A count of bytes or elements.
    Size,
    /// A set of bits that is shown as a number.
    Hex,
    /// An address in the program's memory, of what is not shown.
    At,
    /// A descriptor.
    Fd,
    /// A number that has a name.
    Name(Names),
    /// A set of bits that have names.
    Flags(Names),
    /// A socket's type with its flags.
    Type,
    /// A socket's protocol, which depends on the family in 0.
    Protocol,
    /// A path, or another string.
    Text,
    /// A vector of strings.
    Texts,
    /// A vector of strings that are only counted: the environment.
    Variables,
    /// Bytes for the call, as many as this parameter says.
    In(usize),
    /// Bytes from the call, as many as its result; this parameter says how many at most.
    Out(usize),
    /// Vectors of buffers for the call; as many as this parameter says.
    InVector(usize),
    /// Vectors of buffers from the call; as many as this parameter says.
    OutVector(usize),
    /// An address of as many bytes as this parameter says.
    InAddress(usize),
    /// An address from the call; this parameter points to its length.
    OutAddress(usize),
    /// A pointer to a length.
    Length,
    /// A pointer to an offset.
    Offset,
    /// `struct msghdr` for the call.
    InMessage,
    /// `struct msghdr` from the call.
    OutMessage,
    /// Several for the call: as many as this parameter says.
    InMessages(usize),
    /// Several from the call: as many as the result says.
    OutMessages,
    /// A socket option of the level in 1.
    OptionName,
    /// The value of the option in 2, as long as this parameter says.
    InOption(usize),
    /// The value of the option in 2; this parameter points to its length.
    OutOption(usize),
    /// A request of ioctl(2).
    Request,
    /// The argument of the request in 1.
    Requested,
    /// The argument of the command in 1 of fcntl(2).
    Commanded,
    /// Elements of poll(2), as many as this parameter says.
    Polled(usize),
    /// A set of descriptors below the number in 0.
    Set,
    /// `struct timespec`.
    Timespec,
    /// `struct timeval`: parts of a second are a million.
    Timeval,
    /// `struct clone_args`, of which the flags are shown.
    CloneArgs,
}

/// Which constants a number is one of, or a set of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// `F_GETFD` and other commands of fcntl(2).
    Fcntls,
    /// `AF_INET` and others.
    Families,
    /// `SOCK_CLOEXEC`, `SOCK_NONBLOCK`.
    TypeFlags,
    /// `SHUT_RD` and others.
    ShutdownHow,
    /// `SOL_SOCKET` and others.
    Levels,
    /// `CLONE_VM` and others.
    CloneFlags,
    /// `MSG_DONTWAIT` and others.
    MessageFlags,
    /// `O_CREAT` and others.
    FileFlags,
}
