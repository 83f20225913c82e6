//! From `package.json` and `agentos-package.json` to a manifest and commands.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::header::Schema;
use crate::manifest::{Agent, CommandTarget, ManPage, Manifest, ProvidedFile, Provides};
use crate::mount::EntryKind;
use crate::names;
use crate::pack::tree::{Target, Tree};
use crate::pack::{PackError, PackWarning};

/// The npm manifest: name, version and the commands in `bin`.
pub(crate) const PACKAGE_JSON: &str = "package.json";
/// The small manifest beside it.
pub(crate) const AGENTOS_JSON: &str = "agentos-package.json";
/// Where an agent's start-up bundle lies.
const SNAPSHOT_BUNDLE: &str = "dist/sdk-snapshot.js";
const MAN: &str = "share/man/";

/// `agentos-package.json`, as far as it matters here.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AgentosJson {
    name: Option<String>,
    version: Option<String>,
    agent: Option<AgentJson>,
    provides: Option<ProvidesJson>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AgentJson {
    acp_entrypoint: String,
    #[serde(default)]
    snapshot: bool,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    launch_args: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct ProvidesJson {
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    files: Vec<ProvidedFileJson>,
}

#[derive(Debug, Deserialize)]
struct ProvidedFileJson {
    source: String,
    target: String,
}

/// The two files' content, as found in a source.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    pub(crate) package: Option<Vec<u8>>,
    pub(crate) agentos: Option<Vec<u8>>,
}

fn bad_json(file: &'static str, what: impl ToString) -> PackError {
    PackError::BadJson {
        file,
        what: what.to_string(),
    }
}

fn parse<'t, T: Deserialize<'t>>(file: &'static str, text: &'t [u8]) -> Result<T, PackError> {
    // npm takes a byte order mark.
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    serde_json::from_slice(text).map_err(|e| bad_json(file, e))
}

/// Makes the manifest and the list of commands. The commands are not checked yet.
pub(crate) fn read(
    texts: &Texts,
    tree: &Tree,
    schema: Schema,
    warnings: &mut Vec<PackWarning>,
) -> Result<(Manifest, Vec<CommandTarget>), PackError> {
    let text = texts.package.as_deref().ok_or(PackError::NoPackageJson)?;
    let package: Value = parse(PACKAGE_JSON, text)?;
    if !package.is_object() {
        return Err(bad_json(PACKAGE_JSON, "not an object"));
    }
    let agentos: AgentosJson = match &texts.agentos {
        Some(text) => parse(AGENTOS_JSON, text)?,
        None => AgentosJson::default(),
    };
    let npm_name = string_field(&package, "name")?;
    let unscoped = npm_name.map(|name| name.rsplit('/').next().unwrap_or(name));
    let commands = commands(&package, unscoped)?;
    let name = agentos.name.as_deref().or(unscoped);
    let version = match agentos.version {
        Some(version) => Some(version),
        None => string_field(&package, "version")?.map(str::to_owned),
    };
    let mut manifest = Manifest {
        name: name.ok_or(PackError::Missing("name"))?.to_owned(),
        version: version.ok_or(PackError::Missing("version"))?,
        agent: agentos.agent.map(|agent| Agent {
            acp_entrypoint: agent.acp_entrypoint,
            snapshot: agent.snapshot,
            env: agent.env,
            launch_args: agent.launch_args,
        }),
        provides: agentos.provides.map(|provides| Provides {
            env: provides.env,
            files: provides
                .files
                .into_iter()
                .map(|file| ProvidedFile {
                    source: file.source,
                    target: file.target,
                })
                .collect(),
        }),
        man_pages: man_pages(tree),
        snapshot_bundle_path: None,
    };
    check_agent(&mut manifest, &commands, tree, schema, warnings);
    check_provides(&manifest, tree)?;
    check_names(&manifest)?;
    Ok((manifest, commands))
}

fn string_field<'v>(value: &'v Value, key: &'static str) -> Result<Option<&'v str>, PackError> {
    match value.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(bad_json(PACKAGE_JSON, format!("{key:?} is not a string"))),
    }
}

/// `bin`: one file, named like the package, or a map from names to files.
fn commands(package: &Value, unscoped: Option<&str>) -> Result<Vec<CommandTarget>, PackError> {
    match package.get("bin") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(entry)) => Ok(vec![CommandTarget {
            command: unscoped.ok_or(PackError::Missing("name"))?.to_owned(),
            entry: entry.clone(),
        }]),
        Some(Value::Object(map)) => map
            .iter()
            .map(|(command, entry)| match entry {
                Value::String(entry) => Ok(CommandTarget {
                    command: command.clone(),
                    entry: entry.clone(),
                }),
                _ => Err(bad_json(
                    PACKAGE_JSON,
                    format!("\"bin\" of {command:?} is not a string"),
                )),
            })
            .collect(),
        Some(_) => Err(bad_json(PACKAGE_JSON, "\"bin\" is neither string nor map")),
    }
}

fn man_pages(tree: &Tree) -> Vec<ManPage> {
    let mut pages: Vec<ManPage> = tree
        .entries()
        .iter()
        .filter(|entry| entry.kind != EntryKind::Directory)
        .filter_map(|entry| entry.path.strip_prefix(MAN)?.split_once('/'))
        .filter(|(_, page)| !page.contains('/'))
        .map(|(section, page)| ManPage {
            section: section.to_owned(),
            page: page.to_owned(),
        })
        .collect();
    pages.sort();
    pages
}

/// Fits the agent block to the schema and to the commands there are.
fn check_agent(
    manifest: &mut Manifest,
    commands: &[CommandTarget],
    tree: &Tree,
    schema: Schema,
    warnings: &mut Vec<PackWarning>,
) {
    let Some(agent) = &manifest.agent else {
        return;
    };
    if schema != Schema::V1 {
        warnings.push(PackWarning::AgentDropped);
        manifest.agent = None;
        return;
    }
    if commands.iter().all(|c| c.command != agent.acp_entrypoint) {
        warnings.push(PackWarning::AgentWithoutCommand {
            command: agent.acp_entrypoint.clone(),
        });
    }
    let bundle = tree
        .find(SNAPSHOT_BUNDLE)
        .map(|place| tree.entries()[place].kind);
    if agent.snapshot && bundle == Some(EntryKind::File) {
        manifest.snapshot_bundle_path = Some(format!("/{SNAPSHOT_BUNDLE}"));
    }
}

fn check_provides(manifest: &Manifest, tree: &Tree) -> Result<(), PackError> {
    for file in manifest
        .provides
        .iter()
        .flat_map(|provides| &provides.files)
    {
        let source = file.source.strip_prefix('/').unwrap_or(&file.source);
        match tree.follow("", source) {
            Target::Entry(_) => {}
            Target::Nothing | Target::Outside => {
                return Err(PackError::ProvidesMissing {
                    source_path: file.source.clone(),
                });
            }
        }
        if !file.target.starts_with('/') || file.target.split('/').any(|part| part == "..") {
            return Err(PackError::ProvidesTarget {
                target: file.target.clone(),
            });
        }
    }
    Ok(())
}

/// Name and version become directories.
pub(crate) fn check_names(manifest: &Manifest) -> Result<(), PackError> {
    for name in [&manifest.name, &manifest.version] {
        names::check_component(name.as_bytes()).map_err(|e| PackError::name(name.clone(), e))?;
    }
    Ok(())
}

/// Sorts and checks commands, and leads each to a regular file. Returns the files' places.
pub(crate) fn check_commands(
    commands: &mut [CommandTarget],
    tree: &Tree,
) -> Result<Vec<usize>, PackError> {
    commands.sort();
    let mut places = Vec::with_capacity(commands.len());
    let mut last: Option<String> = None;
    for command in commands {
        names::check_command(command.command.as_bytes()).map_err(|source| {
            PackError::CommandName {
                command: command.command.clone(),
                source,
            }
        })?;
        if last.as_ref() == Some(&command.command) {
            return Err(PackError::Duplicate {
                entry: command.command.clone(),
            });
        }
        let missing = || PackError::BinMissing {
            command: command.command.clone(),
            entry: command.entry.clone(),
        };
        let place = match tree.follow("", &command.entry) {
            Target::Entry(place) => place,
            Target::Nothing | Target::Outside => return Err(missing()),
        };
        let file = &tree.entries()[place];
        if file.kind != EntryKind::File {
            return Err(missing());
        }
        command.entry = file.path.clone();
        last = Some(command.command.clone());
        places.push(place);
    }
    Ok(places)
}
