//! The names of owners. A name is a byte string, and takes 16 bytes if it spells a UUID in the canonical form.

use std::borrow::Cow;

use uuid::Uuid;

/// The longest name of an owner, in bytes.
pub(crate) const MAX_OWNER_LEN: usize = 128;

const UUID_LEN: usize = uuid::fmt::Hyphenated::LENGTH;

/// An owner, borrowed from a command or kept with its grant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner<'a> {
    /// A UUID that is spelled in 36 lower-case characters. A UUID in any other spelling is a `Name`, because another byte string is another
    /// owner.
    Uuid([u8; 16]),
    Name(Cow<'a, [u8]>),
}

impl<'a> Owner<'a> {
    /// Returns the owner with this name; `None` if the name is empty or longer than [`MAX_OWNER_LEN`].
    pub fn new(name: &'a [u8]) -> Option<Self> {
        if let Some(uuid) = canonical_uuid(name) {
            return Some(Self::Uuid(uuid));
        }
        (1..=MAX_OWNER_LEN).contains(&name.len()).then_some(Self::Name(Cow::Borrowed(name)))
    }

    /// Makes a new owner whose name nobody can guess, because the name has 122 random bits (UUID version 4).
    pub fn random() -> Self {
        Self::Uuid(Uuid::new_v4().into_bytes())
    }

    pub fn into_owned(self) -> Owner<'static> {
        match self {
            Self::Uuid(uuid) => Owner::Uuid(uuid),
            Self::Name(name) => Owner::Name(Cow::Owned(name.into_owned())),
        }
    }

    /// Borrows the owner without copying its name.
    pub fn borrowed(&self) -> Owner<'_> {
        match self {
            Self::Uuid(uuid) => Owner::Uuid(*uuid),
            Self::Name(name) => Owner::Name(Cow::Borrowed(name)),
        }
    }

    /// Returns the number of bytes of the name on the heap.
    pub(super) fn heap_size(&self) -> usize {
        match self {
            Self::Uuid(_) => 0,
            Self::Name(name) => name.len(),
        }
    }

    /// Returns the owner's name, as the client wrote it.
    pub fn text(&self) -> OwnerText<'_> {
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

/// The bytes of an owner's name.
pub enum OwnerText<'a> {
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

/// Parses a UUID that is spelled exactly as `text` writes UUIDs: in 36 characters, with hyphens, in lower case. Returns `None` for any
/// other name.
fn canonical_uuid(name: &[u8]) -> Option<[u8; 16]> {
    let name: &[u8; UUID_LEN] = name.try_into().ok()?;
    if [name[8], name[13], name[18], name[23]] != *b"----" {
        return None;
    }
    // All digits are in one array, and the loop has no early exit, so that the compiler can process many digits at a time.
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

/// Stands for a character that is no digit. The one bit of this value is set in no digit's value.
const NO_DIGIT: u8 = 0x10;
