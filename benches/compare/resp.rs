//! The server's protocol, as far as a load generator needs it: it prepares requests beforehand, and finds the ends of replies. A client
//! library makes a value of each reply, which takes 50 times as long: the server would then wait for the generator.

/// A request of these arguments.
pub(crate) fn request<A: AsRef<[u8]>>(arguments: &[A]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments.iter().map(AsRef::as_ref) {
        bytes.extend([format!("${}\r\n", argument.len()).as_bytes(), argument, b"\r\n"].concat());
    }
    bytes
}

/// A request of words that hold no spaces.
pub(crate) fn words(line: &str) -> Vec<u8> {
    request(&line.split_ascii_whitespace().collect::<Vec<_>>())
}

/// As `words`, with `{number}` replaced by the number, and `{owner}` and `{owner2}` by two owners made from it.
pub(crate) fn said(line: &str, number: usize) -> Vec<u8> {
    let mut line = line.replace("{number}", &number.to_string());
    for (place, name) in ["{owner}", "{owner2}"].into_iter().enumerate() {
        if line.contains(name) {
            line = line.replace(name, &owner(number + place * 10_000_000));
        }
    }
    words(&line)
}

/// Returns the length of the first reply in the buffer, once it has arrived completely. RESP2 only.
pub(crate) fn reply_len(buffer: &[u8]) -> Option<usize> {
    let mut at = 0;
    let mut missing = 1;
    while missing > 0 {
        let kind = *buffer.get(at)?;
        let number = &buffer[at + 1..];
        let line = number.iter().position(|&byte| byte == b'\r')?;
        at += line + 3;
        match kind {
            b'$' if number[0] != b'-' => at += digits(&number[..line]) + 2,
            b'*' if number[0] != b'-' => missing += digits(&number[..line]),
            _ => (),
        }
        missing -= 1;
    }
    (at <= buffer.len()).then_some(at)
}

/// The number that an integer reply (`:30000`) spells.
pub(crate) fn integer(reply: &[u8]) -> Option<usize> {
    let number = reply.strip_prefix(b":")?.strip_suffix(b"\r\n")?;
    number.iter().all(u8::is_ascii_digit).then(|| digits(number))
}

fn digits(number: &[u8]) -> usize {
    number.iter().fold(0, |value, &digit| value * 10 + usize::from(digit - b'0'))
}

/// Returns an owner as clients make them, a UUID of version 4. Each run gets the same owners.
pub(crate) fn owner(number: usize) -> String {
    let mixed = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (high, low) = ((mixed >> 32) as u32, mixed as u32);
    let (third, fourth) = (high & 0xfff, high >> 16);
    format!("{high:08x}-{:04x}-4{:03x}-8{third:03x}-{low:08x}{fourth:04x}", low >> 16, low & 0xfff)
}
