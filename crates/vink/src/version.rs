//! `vink version`: what is here, down to the images.

use std::path::Path;
use std::process::ExitCode;

use vink_kernel::{find_image, images, Image};

use crate::cli_error::CliError;
use crate::image;
use crate::print::say;

/// Prints one fact a line; the image that would be used comes first. None at all is no error here.
pub(crate) fn print() -> Result<ExitCode, CliError> {
    say!("vink   {}", env!("CARGO_PKG_VERSION"))?;
    say!("abi    {}", vink_abi::VINK_ABI_VERSION)?;
    match find_image() {
        Ok(first) => {
            print_image(&first)?;
            for path in images().iter().filter(|path| **path != first) {
                print_image(path)?;
            }
        }
        Err(e) => say!("image  {e}")?,
    }
    Ok(ExitCode::SUCCESS)
}

fn print_image(path: &Path) -> Result<(), CliError> {
    match Image::open(path) {
        Ok(image) => {
            let made_of =
                image::made_of(path).map_or(String::new(), |made_of| format!(", {made_of}"));
            say!(
                "image  {} (Linux {}, {}{made_of})",
                path.display(),
                image.release(),
                image.version()
            )?;
        }
        Err(e) => say!("image  {e}")?,
    }
    Ok(())
}
