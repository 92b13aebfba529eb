//! The image without what a key-value store does not need, beside the full one.

use std::path::{Path, PathBuf};
use std::process::Command;

use vink_kernel::{cache, find_image, ImageFile};

use crate::rebuild::succeed;
use crate::side::Round;
use crate::BoxError;

/// How much of the full image's code it has.
pub(crate) fn text(vink: PathBuf) -> Result<Round, BoxError> {
    let trimmed = ImageFile::open(&kvs(&vink)?)?;
    let full = ImageFile::open(&find_image()?)?;
    Ok(Box::new(move || {
        let ratio = trimmed.text_bytes()? as f64 / full.text_bytes()? as f64;
        Ok(vec![Some(ratio)])
    }))
}

/// The image of the profile, which is built if it is not there: as long as the full one's build.
pub(crate) fn kvs(vink: &Path) -> Result<PathBuf, BoxError> {
    let mut build = Command::new(vink);
    build.args(["image", "build", "--profile", "kvs"]);
    succeed("vink image build --profile kvs", &mut build)?;
    let cache = cache().ok_or("neither VINK_CACHE nor HOME is set")?;
    Ok(cache.join("images/libvink-linux-6.12-kvs.so"))
}
