//! `vink version`: what is here, down to the images.

use std::path::Path;
use std::process::ExitCode;

use vink_kernel::{find_image, images, Image};

use crate::image;

/// Prints one fact a line; the image that would be used comes first. None at all is no error here.
pub(crate) fn print() -> ExitCode {
    println!("vink   {}", env!("CARGO_PKG_VERSION"));
    println!("abi    {}", vink_abi::VINK_ABI_VERSION);
    match find_image() {
        Ok(first) => {
            print_image(&first);
            images()
                .iter()
                .filter(|path| **path != first)
                .for_each(|path| print_image(path));
        }
        Err(e) => println!("image  {e}"),
    }
    ExitCode::SUCCESS
}

fn print_image(path: &Path) {
    match Image::open(path) {
        Ok(image) => {
            let made_of =
                image::made_of(path).map_or(String::new(), |made_of| format!(", {made_of}"));
            println!(
                "image  {} (Linux {}, {}{made_of})",
                path.display(),
                image.release(),
                image.version()
            );
        }
        Err(e) => println!("image  {e}"),
    }
}
