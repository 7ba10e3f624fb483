//! The companion key of a lock: the key on which the lock's waiters are blocked.

use std::sync::LazyLock;

use smallvec::SmallVec;
use uuid::Uuid;

/// Returns the key on which a lock's waiters are blocked. This companion of the lock's key is in the same hash slot, and nobody writes to
/// it.
///
/// When a key is created, the server visits each client that is blocked on this key. With the lock's own key, each creation, for example
/// after a lapse, would cost one visit per waiter. Nobody can guess the companion's name, so no client can cause such visits. In a cluster,
/// the companion must be in the lock's hash slot, because the server sends waiters away when the hash slot of the key on which they are
/// blocked moves. For a few keys (the empty key, and keys with a `}` but no hash tag), no other name is certain to be in the same hash
/// slot. Such a key is its own companion.
pub(super) fn companion(key: &[u8], cluster: bool) -> SmallVec<[u8; 128]> {
    /// A random suffix, chosen once per process.
    static SUFFIX: LazyLock<[u8; 16]> = LazyLock::new(|| Uuid::new_v4().into_bytes());
    let suffix = SUFFIX.as_slice();
    let parts: [&[u8]; 4] = if !cluster || has_hash_tag(key) {
        [b"", key, b"", suffix]
    } else if key.is_empty() || key.contains(&b'}') {
        [b"", key, b"", b""]
    } else {
        [b"{", key, b"}", suffix]
    };
    let mut name = SmallVec::with_capacity(parts.iter().map(|part| part.len()).sum());
    parts.iter().for_each(|part| name.extend_from_slice(part));
    name
}

/// Whether the hash slot comes only from a part of the key, `{...}`.
fn has_hash_tag(key: &[u8]) -> bool {
    let Some(open) = key.iter().position(|&byte| byte == b'{') else { return false };
    let tagged = key.iter().skip(open + 1).position(|&byte| byte == b'}');
    tagged.is_some_and(|len| len > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hash slot comes from the text between the first `{` and the next `}`. If there is no such text, the slot comes from the whole
    /// key: https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags
    #[test]
    fn a_companion_has_the_slot_of_its_key_and_nobodys_name() {
        let with_suffix: [(&[u8], bool, &[u8]); 7] = [
            (b"k", false, b"k"),
            (b"{a}", false, b"{a}"),
            (b"k", true, b"{k}"),
            (b"{a}b", true, b"{a}b"),
            (b"b{a}{}", true, b"b{a}{}"),
            (b"k{", true, b"{k{}"),
            (b"{", true, b"{{}"),
        ];
        for (key, cluster, start) in with_suffix {
            let companion = companion(key, cluster);
            assert!(companion.starts_with(start) && companion.len() == start.len() + 16, "{companion:?}");
        }
        for key in [&b""[..], b"}", b"{}k", b"k}"] {
            assert_eq!(companion(key, true).as_slice(), key);
        }
    }
}
