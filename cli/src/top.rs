//! `redislock top`.
use crate::connect::Target;
use crate::failure::Failure;
use crate::options::Top;
pub(crate) fn main(_target: &Target, _asked: &Top) -> Result<u8, Failure> {
    Ok(0)
}
