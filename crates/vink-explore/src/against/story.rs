//! A difference in plain text: what was done to packets, what differs, and both runs.

use super::compare::Difference;
use crate::story::Told;
use crate::{End, Outcome};

/// What a story of a difference is told of. The explored image comes first.
pub struct DifferenceStory<'a> {
    /// The lab's name.
    pub lab: &'a str,
    /// The other lab's, if there are two.
    pub other_lab: Option<&'a str>,
    /// The images' files.
    pub images: [&'a str; 2],
    /// What the two sides are called ([`names`]).
    pub names: &'a [String; 2],
    /// What differs.
    pub difference: &'a Difference,
    /// The runs, with their recordings.
    pub outcomes: &'a [Outcome; 2],
    /// Interfaces by their places in the recordings.
    pub ends: &'a [End],
}

impl DifferenceStory<'_> {
    /// A page for users.
    pub fn text(&self) -> String {
        let [one, other] = self.images;
        let (lab, names) = (self.lab, self.names);
        let mut text = match self.other_lab {
            None => format!(
                "Lab {lab} does not come to the same on two images:\n  {}: {one}\n  {}: {other}\n\n",
                names[0], names[1]
            ),
            Some(other) => format!("Labs {lab} and {other} do not come to the same.\n\n"),
        };
        let told = self.outcomes.each_ref().map(|outcome| Told {
            outcome,
            ends: self.ends,
        });
        text += &told[0].deviations();
        text += "\nThe first difference:\n";
        text += &self.difference.says(names.each_ref().map(String::as_str));
        for (told, name) in told.iter().zip(names) {
            text += &format!("\nPrograms on {name}:\n{}", told.programs());
        }
        for (told, name) in told.iter().zip(names) {
            text += &format!("\nWhat happened on {name}:\n{}", told.events());
        }
        text
    }
}

/// Names for two images that tell them apart: those that `vink image list` has, if they do.
pub fn names(images: [&str; 2]) -> [String; 2] {
    let short = images.map(|image| {
        let name = vink_kernel::name_of_image(image.as_ref());
        name.map_or(image, |(_, name)| name)
    });
    match short[0] == short[1] {
        false => short.map(str::to_owned),
        true => ["the first".to_owned(), "the second".to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_told_apart() {
        let one = "/a/libvink-linux-6.12.so";
        assert_eq!(names([one, "/b/libvink-linux-6.1.so"]), ["6.12", "6.1"]);
        assert_eq!(names([one, one]), ["the first", "the second"]);
    }
}
