//! What was found, as a file from which it can be repeated.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::run::Limits;
use crate::{Error, Outcome, Runner, Schedule, Surroundings, Violation};

/// The manifest's name in its folder.
pub const MANIFEST: &str = "explore.json";
/// The version of manifests.
const FORMAT: u32 = 1;

/// A schedule, the lab and the image that it is of, and what comes of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Manifest {
    format: u32,
    /// The version of vink.
    pub vink: String,
    /// The image's file.
    pub image: PathBuf,
    /// The BLAKE3 of its contents.
    pub image_hash: String,
    /// The lab, as in its file, checked and complete.
    pub lab: Value,
    /// Where its trapped programs are.
    #[serde(default)]
    pub around: Surroundings,
    /// What is done to packets.
    pub schedule: Schedule,
    /// The property that it breaks, and how.
    pub violation: Violation,
    /// Of all packets and calls.
    pub digest: String,
    /// The properties that were checked; none: all.
    pub properties: Vec<String>,
    /// What ends runs.
    pub limits: Limits,
    /// Of a difference: the other image, or the other lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<OtherImage>,
}

/// An image, or a lab, that comes to something else with the same schedule.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct OtherImage {
    /// Its file.
    pub image: PathBuf,
    /// The BLAKE3 of its contents.
    pub image_hash: String,
    /// Of all packets and calls of the run there.
    pub digest: String,
    /// Another lab, if it is not the same one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lab: Option<OtherLab>,
}

/// A lab that is explored beside another one.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct OtherLab {
    /// As in its file, checked and complete.
    pub lab: Value,
    /// Where its trapped programs are.
    pub around: Surroundings,
}

impl OtherLab {
    /// Of a lab whose trapped programs are there.
    pub fn new(lab: &vink_spec::Lab, around: Surroundings) -> OtherLab {
        let lab = serde_json::to_value(lab).expect("plain data");
        OtherLab { lab, around }
    }
}

impl Manifest {
    /// Of a run that was recorded; `None`: it breaks nothing, or was not recorded.
    ///
    /// # Errors
    /// [`Error::Host`]: the image can't be read.
    pub fn of(
        runner: &Runner,
        lab: &vink_spec::Lab,
        schedule: Schedule,
        outcome: &Outcome,
    ) -> Result<Option<Manifest>, Error> {
        let (Some(violation), Some(recording)) = (&outcome.violation, &outcome.recording) else {
            return Ok(None);
        };
        Ok(Some(Manifest {
            format: FORMAT,
            vink: env!("CARGO_PKG_VERSION").to_owned(),
            image: runner.image().to_owned(),
            image_hash: hash(runner.image())?,
            lab: serde_json::to_value(lab).expect("plain data"),
            around: runner.around().clone(),
            schedule,
            violation: violation.clone(),
            digest: recording.digest(),
            properties: runner.wanted().to_vec(),
            limits: runner.limits,
            against: None,
        }))
    }

    /// The same of a difference: with the run of the other image, which was recorded, and the other lab.
    ///
    /// # Errors
    /// [`Error::Host`]: the image can't be read.
    pub fn against(
        mut self,
        image: &Path,
        outcome: &Outcome,
        lab: Option<OtherLab>,
    ) -> Result<Manifest, Error> {
        if let Some(recording) = &outcome.recording {
            self.against = Some(OtherImage {
                image: image.to_owned(),
                image_hash: hash(image)?,
                digest: recording.digest(),
                lab,
            });
        }
        Ok(self)
    }

    /// Reads the one in a folder, or in this file.
    ///
    /// # Errors
    /// [`Error::Host`]; [`Error::Lab`]: it is none, or the image is another one by now.
    pub fn read(path: &Path) -> Result<Manifest, Error> {
        let path = match path.is_dir() {
            true => path.join(MANIFEST),
            false => path.to_owned(),
        };
        let name = path.display();
        let bytes = std::fs::read(&path).map_err(Error::host(format!("reading {name}")))?;
        let manifest: Manifest = serde_json::from_slice(&bytes).map_err(|error| {
            Error::Lab(format!(
                "{name} is no manifest of `vink explore` ({error}): give the folder that it has written"
            ))
        })?;
        if manifest.format != FORMAT {
            return Err(Error::Lab(format!(
                "{name} has format {}, and this vink reads {FORMAT}: explore again",
                manifest.format
            )));
        }
        Ok(manifest)
    }

    /// Makes sure that the image is what it was.
    ///
    /// # Errors
    /// [`Error::Lab`]: it is another one. [`Error::Host`]: it can't be read.
    pub fn check_image(&self) -> Result<(), Error> {
        let other = self.against.iter();
        let other = other.map(|other| (&other.image, &other.image_hash));
        for (image, then) in [(&self.image, &self.image_hash)].into_iter().chain(other) {
            if hash(image)? != *then {
                return Err(Error::Lab(format!(
                    "{} is not the image that was explored: build that one again, or explore this one",
                    image.display()
                )));
            }
        }
        Ok(())
    }
}

fn hash(file: &Path) -> Result<String, Error> {
    let what = || format!("reading {}", file.display());
    let bytes = std::fs::read(file).map_err(Error::host(what()))?;
    Ok(blake3::hash(&bytes).to_hex().to_string())
}
