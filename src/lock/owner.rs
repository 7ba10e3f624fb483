//! The name of a holder: a byte string, kept in 16 bytes where it is a UUID in its canonical text.

use std::borrow::Cow;

use uuid::Uuid;

/// The longest owner, in bytes.
pub(crate) const MAX_OWNER_LEN: usize = 128;

const UUID_LEN: usize = uuid::fmt::Hyphenated::LENGTH;

/// An owner, borrowed from a command or kept with its grant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Owner<'a> {
    /// 36 lower-case characters, as `uuid` writes them. Any other spelling of a UUID is a `Name`: it is another
    /// byte string, so another owner.
    Uuid([u8; 16]),
    /// Anything else.
    Name(Cow<'a, [u8]>),
}

impl<'a> Owner<'a> {
    /// The owner of this name; `None` if the name is empty or longer than [`MAX_OWNER_LEN`].
    pub(crate) fn new(name: &'a [u8]) -> Option<Self> {
        if let Some(uuid) = canonical_uuid(name) {
            return Some(Self::Uuid(uuid));
        }
        (1..=MAX_OWNER_LEN).contains(&name.len()).then_some(Self::Name(Cow::Borrowed(name)))
    }

    /// A new owner that nobody can guess: 122 random bits (UUID version 4).
    pub(crate) fn random() -> Self {
        Self::Uuid(Uuid::new_v4().into_bytes())
    }

    pub(crate) fn into_owned(self) -> Owner<'static> {
        match self {
            Self::Uuid(uuid) => Owner::Uuid(uuid),
            Self::Name(name) => Owner::Name(Cow::Owned(name.into_owned())),
        }
    }

    /// Borrows the owner, without a copy of its name.
    pub(crate) fn borrowed(&self) -> Owner<'_> {
        match self {
            Self::Uuid(uuid) => Owner::Uuid(*uuid),
            Self::Name(name) => Owner::Name(Cow::Borrowed(name)),
        }
    }

    /// Bytes of it on the heap.
    pub(super) fn heap_size(&self) -> usize {
        match self {
            Self::Uuid(_) => 0,
            Self::Name(name) => name.len(),
        }
    }

    /// The owner as the client wrote it.
    pub(crate) fn text(&self) -> OwnerText<'_> {
        match self {
            Self::Uuid(uuid) => {
                let mut text = [0; UUID_LEN];
                Uuid::from_bytes(*uuid).hyphenated().encode_lower(&mut text);
                OwnerText::Uuid(text)
            }
            Self::Name(name) => OwnerText::Name(name),
        }
    }
}

/// An owner's bytes.
pub(crate) enum OwnerText<'a> {
    Uuid([u8; UUID_LEN]),
    Name(&'a [u8]),
}

impl AsRef<[u8]> for OwnerText<'_> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Uuid(text) => text,
            Self::Name(name) => name,
        }
    }
}

/// Reads 36 characters in the one spelling that `text` gives back: hyphens in place, no capitals.
fn canonical_uuid(name: &[u8]) -> Option<[u8; 16]> {
    let name: &[u8; UUID_LEN] = name.try_into().ok()?;
    if [name[8], name[13], name[18], name[23]] != *b"----" {
        return None;
    }
    // All in one array, and no early exit: so the compiler takes many digits at a time.
    let mut digits = [0; 32];
    digits[..8].copy_from_slice(&name[..8]);
    digits[8..12].copy_from_slice(&name[9..13]);
    digits[12..16].copy_from_slice(&name[14..18]);
    digits[16..20].copy_from_slice(&name[19..23]);
    digits[20..].copy_from_slice(&name[24..]);
    let digits = digits.map(|digit| match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => NO_DIGIT,
    });
    if digits.iter().fold(0, |bits, digit| bits | digit) >= NO_DIGIT {
        return None;
    }
    let mut uuid = [0; 16];
    for (byte, [high, low]) in uuid.iter_mut().zip(digits.as_chunks().0) {
        *byte = high << 4 | low;
    }
    Some(uuid)
}

/// Above all digits, and with a bit that none has.
const NO_DIGIT: u8 = 0x10;
