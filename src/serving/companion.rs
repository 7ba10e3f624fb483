//! The name of the key that waiters of a lock are blocked on.

use std::sync::LazyLock;

use uuid::Uuid;

/// The key that a waiter is blocked on: not the lock's own key but a companion in the same hash slot, which nobody writes.
///
/// When a key is made anew, as a lock is after a lapse, the server goes through all clients that are blocked on it. With the lock's own
/// key, that would be a call for each waiter. Nobody can guess the companion's name (as nobody can guess an owner), so no client can cause
/// such calls. In a cluster the companion must be in the lock's hash slot, since the server sends waiters away when their key's hash slot
/// moves. For a few keys (no hash tag, but a `}`) no such name exists, and they are their own companions.
pub(super) fn companion(key: &[u8], cluster: bool) -> Vec<u8> {
    /// A random suffix, which stays the same for the life of this process.
    static SUFFIX: LazyLock<[u8; 16]> = LazyLock::new(|| Uuid::new_v4().into_bytes());
    let suffix = SUFFIX.as_slice();
    if !cluster || has_hash_tag(key) {
        [key, suffix].concat()
    } else if key.is_empty() || key.contains(&b'}') {
        key.to_vec()
    } else {
        [b"{", key, b"}", suffix].concat()
    }
}

/// Whether the server takes only a part of the key, `{...}`, for the hash slot.
fn has_hash_tag(key: &[u8]) -> bool {
    let Some(open) = key.iter().position(|&byte| byte == b'{') else { return false };
    let tagged = key.iter().skip(open + 1).position(|&byte| byte == b'}');
    tagged.is_some_and(|len| len > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hash slot comes from what is between the first `{` and the next `}`, unless nothing is, and else from the whole key:
    /// https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags
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
            assert_eq!(companion(key, true), key);
        }
    }
}
