//! `vink version`: what is here, down to the images.

use std::path::Path;
use std::process::ExitCode;

use vink_kernel::{find_image, images, Image};

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
        Ok(image) => println!(
            "image  {} (Linux {}, {})",
            path.display(),
            image.release(),
            image.version()
        ),
        Err(e) => println!("image  {e}"),
    }
}
