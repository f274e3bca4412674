// Also change: internal/trireme/sdk/configuring.py (which names the other languages' files).

//! A plugin's arguments.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::v1;

/// Several schedulers may use one plugin; the oldest configuration is forgotten first.
const MAX_CONFIGURATIONS: usize = 32;

/// One profile's configuration of the plugin.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// The profile.
    pub profile: String,
    /// The scheduler's feature gates.
    pub feature_gates: HashMap<String, bool>,
    args: Vec<u8>,
}

/// All that is wrong with arguments: the path of each field from `args` on, and what is wrong, in one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArgumentErrors(Vec<(String, String)>);

impl ArgumentErrors {
    /// An error of one field, e.g. `zones[2].name`; empty: of the arguments as a whole.
    pub fn of(field: &str, message: impl Into<String>) -> Self {
        Self::default().and(field, message)
    }

    /// One more error.
    pub fn and(mut self, field: &str, message: impl Into<String>) -> Self {
        let path = if field.is_empty() || field == "." { "args".to_string() } else { format!("args.{field}") };
        let message: String = message.into();
        self.0.push((path, message.split_whitespace().collect::<Vec<_>>().join(" ")));
        self
    }

    /// Ok without an error.
    pub fn into_result(self) -> Result<(), Self> {
        if self.0.is_empty() { Ok(()) } else { Err(self) }
    }

    pub(crate) fn to_message(&self) -> v1::ConfigureResponse {
        let errors = self.0.iter().map(|(field, message)| v1::FieldError { field: field.clone(), message: message.clone() });
        v1::ConfigureResponse { errors: errors.collect() }
    }
}

impl Configuration {
    pub(crate) fn new(request: &v1::ConfigureRequest) -> Self {
        Self {
            profile: request.profile.clone(),
            feature_gates: request.feature_gates.clone(),
            args: request.args_json.clone(),
        }
    }

    /// The arguments, read into a type. `#[serde(deny_unknown_fields)]` refuses fields that it lacks.
    pub fn args<T: DeserializeOwned>(&self) -> Result<T, ArgumentErrors> {
        if !self.args.trim_ascii_start().starts_with(b"{") {
            return Err(ArgumentErrors::of("", "must be an object"));
        }
        let mut reader = serde_json::Deserializer::from_slice(&self.args);
        serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            let (path, text) = (error.path().to_string(), error.inner().to_string());
            let text = text.split(" at line ").next().unwrap_or_default();
            if let Some(rest) = text.strip_prefix("unknown field `") {
                // The path of the field itself, also where the library names the object around it.
                let name = rest.split('`').next().unwrap_or_default();
                let full = if path == "." { name.to_string() }
                    else if path.ends_with(name) { path } else { format!("{path}.{name}") };
                return ArgumentErrors::of(&full, "unknown field");
            }
            ArgumentErrors::of(&path, text)
        })
    }
}

/// Plugins by the hash of the configuration, and the profile.
pub(crate) struct Configured<P> {
    made: HashMap<u64, HashMap<String, Arc<P>>>,
    order: VecDeque<u64>,
}

impl<P> Default for Configured<P> {
    fn default() -> Self {
        Self { made: HashMap::new(), order: VecDeque::new() }
    }
}

impl<P> Configured<P> {
    pub(crate) fn add(&mut self, hash: u64, profile: String, plugin: Arc<P>) {
        if !self.made.contains_key(&hash) {
            self.order.push_back(hash);
            if self.order.len() > MAX_CONFIGURATIONS {
                if let Some(oldest) = self.order.pop_front() {
                    self.made.remove(&oldest);
                }
            }
        }
        self.made.entry(hash).or_default().insert(profile, plugin);
    }

    /// The plugin of a profile; of any profile where the call names none.
    pub(crate) fn get(&self, hash: u64, profile: Option<&str>) -> Option<Arc<P>> {
        let profiles = self.made.get(&hash)?;
        match profile {
            Some(name) => profiles.get(name).cloned(),
            None => profiles.values().next().cloned(),
        }
    }
}
