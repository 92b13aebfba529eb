//! PNG pictures: drawn into memory, with the letters of a font of the host's.

use std::error::Error;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::process::Command;

use ab_glyph::{point, Font, FontVec, PxScale, ScaleFont};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingErrorKind,
};

/// Where Debian and others have a font with all that a plot needs.
const FONTS: [&str; 4] = [
    "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
    "/usr/share/fonts/TTF/DejaVuSans.ttf",
    "/usr/share/fonts/dejavu-sans-fonts/DejaVuSans.ttf",
    "/usr/share/fonts/truetype/liberation/LiberationSans-Regular.ttf",
];

/// A picture in memory: plotters' own, but for letters, for which that wants a font even where there are none to be drawn.
pub(crate) struct Canvas<'a> {
    picture: BitMapBackend<'a>,
    font: FontVec,
}

type Drawn<'a> = Result<(), DrawingErrorKind<<BitMapBackend<'a> as DrawingBackend>::ErrorType>>;

/// Draws a picture of this size into a file.
///
/// # Errors
/// There is no font, `draw` fails, or the file can't be written.
pub(crate) fn png(
    path: &Path,
    size: (u32, u32),
    draw: impl FnOnce(&DrawingArea<Canvas<'_>, Shift>) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let font = FontVec::try_from_vec(font()?)
        .map_err(|_| "the host's font can't be read: install fonts-dejavu-core, or draw an .svg")?;
    let mut pixels = vec![0; 3 * size.0 as usize * size.1 as usize];
    let picture = BitMapBackend::with_buffer(&mut pixels, size);
    draw(&Canvas { picture, font }.into_drawing_area())?;
    let mut encoder = png::Encoder::new(BufWriter::new(File::create(path)?), size.0, size.1);
    encoder.set_color(png::ColorType::Rgb);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&pixels)?;
    writer.finish()?;
    Ok(())
}

/// A font's file: one that is known, or what fontconfig has for sans-serif.
fn font() -> Result<Vec<u8>, String> {
    if let Some(font) = FONTS.iter().find_map(|path| std::fs::read(path).ok()) {
        return Ok(font);
    }
    let mut ask = Command::new("fc-match");
    let asked = ask.args(["-f", "%{file}", "sans-serif"]).output();
    let path = asked
        .ok()
        .and_then(|out| String::from_utf8(out.stdout).ok());
    path.and_then(|path| std::fs::read(path).ok())
        .ok_or_else(|| {
            "the host has no font for a .png's letters: install fonts-dejavu-core, or draw an .svg"
                .to_owned()
        })
}

impl Canvas<'_> {
    /// Each letter of a text and where it begins; where the text ends.
    fn letters(&self, text: &str, size: f64) -> (Vec<(char, f32)>, f32) {
        let font = self.font.as_scaled(PxScale::from(size as f32));
        let mut at = 0.0;
        let letters = text.chars().map(|letter| {
            let start = at;
            at += font.h_advance(font.glyph_id(letter));
            (letter, start)
        });
        (letters.collect(), at)
    }
}

impl<'a> DrawingBackend for Canvas<'a> {
    type ErrorType = <BitMapBackend<'a> as DrawingBackend>::ErrorType;

    fn get_size(&self) -> (u32, u32) {
        self.picture.get_size()
    }

    fn ensure_prepared(&mut self) -> Drawn<'a> {
        self.picture.ensure_prepared()
    }

    fn present(&mut self) -> Drawn<'a> {
        self.picture.present()
    }

    fn draw_pixel(&mut self, point: BackendCoord, color: BackendColor) -> Drawn<'a> {
        self.picture.draw_pixel(point, color)
    }

    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> Drawn<'a> {
        self.picture.draw_line(from, to, style)
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
        fill: bool,
    ) -> Drawn<'a> {
        self.picture.draw_rect(from, to, style, fill)
    }

    fn estimate_text_size<S: BackendTextStyle>(
        &self,
        text: &str,
        style: &S,
    ) -> Result<(u32, u32), DrawingErrorKind<Self::ErrorType>> {
        let (_, width) = self.letters(text, style.size());
        Ok((width.ceil() as u32, style.size().ceil() as u32))
    }

    fn draw_text<S: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &S,
        position: BackendCoord,
    ) -> Drawn<'a> {
        let scale = PxScale::from(style.size() as f32);
        let (letters, width) = self.letters(text, style.size());
        let (ascent, height) = {
            let font = self.font.as_scaled(scale);
            (font.ascent(), font.height())
        };
        let left = match style.anchor().h_pos {
            HPos::Left => 0.0,
            HPos::Center => -width / 2.0,
            HPos::Right => -width,
        };
        let top = match style.anchor().v_pos {
            VPos::Top => 0.0,
            VPos::Center => -height / 2.0,
            VPos::Bottom => -height,
        };
        let color = style.color();
        let mut pixels = Vec::new();
        for (letter, at) in letters {
            let place = point(left + at, top + ascent);
            let glyph = self
                .font
                .glyph_id(letter)
                .with_scale_and_position(scale, place);
            let Some(outline) = self.font.outline_glyph(glyph) else {
                continue;
            };
            let corner = outline.px_bounds().min;
            outline.draw(|x, y, share| {
                let (x, y) = (corner.x as i32 + x as i32, corner.y as i32 + y as i32);
                pixels.push((style.transform().transform(x, y), share));
            });
        }
        for ((x, y), share) in pixels {
            let color = color.mix(f64::from(share));
            self.picture
                .draw_pixel((position.0 + x, position.1 + y), color)?;
        }
        Ok(())
    }
}
