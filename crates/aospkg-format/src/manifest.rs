//! Chunk 1: what a package is called and what it offers.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::bare::{Decoder, Encoder};
use crate::error::{Error, Result};
use crate::header::Schema;
use crate::limits::MAX_COMMANDS;
use crate::names;

const CHUNK: &str = "manifest";

/// The manifest, without the commands.
///
/// Commands are served by [`crate::Package::commands`] and [`crate::Package::command`], which
/// decode nothing in advance: a package may have a hundred thousand of them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// Package name; one path component.
    pub name: String,
    /// Package version; one path component.
    pub version: String,
    /// Present when the package is an agent. Always `None` in schema 2.
    pub agent: Option<Agent>,
    /// Files and environment that the package gives to the machine it is mounted in.
    pub provides: Option<Provides>,
    /// Manual pages, by section.
    pub man_pages: Vec<ManPage>,
    /// Absolute path inside the package of a start-up bundle. Always `None` in schema 2.
    pub snapshot_bundle_path: Option<String>,
}

/// How an agent is started.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Agent {
    /// The command that speaks the agent protocol.
    pub acp_entrypoint: String,
    /// Whether the package carries a start-up bundle for it.
    pub snapshot: bool,
    /// Environment for the agent.
    pub env: BTreeMap<String, String>,
    /// Arguments for the agent.
    pub launch_args: Vec<String>,
}

/// What a package provides outside its own directory.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Provides {
    /// Environment variables, as defaults.
    pub env: BTreeMap<String, String>,
    /// Directories (or files) of the package shown at other places.
    pub files: Vec<ProvidedFile>,
}

/// One `provides.files` item.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ProvidedFile {
    /// Path in the package.
    pub source: String,
    /// Path in the machine.
    pub target: String,
}

/// One manual page: `share/man/SECTION/PAGE`.
#[derive(Debug, Clone, PartialEq, Eq, Default, PartialOrd, Ord, Serialize)]
pub struct ManPage {
    /// Directory under `share/man`, such as `man1`.
    pub section: String,
    /// File name in it.
    pub page: String,
}

/// A command and the path of its file, relative to the package root.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct CommandTarget {
    /// Command name.
    pub command: String,
    /// Path of the file that is started, without a leading slash.
    pub entry: String,
}

impl Manifest {
    /// Decodes everything but the commands from a whole chunk.
    pub(crate) fn decode(schema: Schema, chunk: &[u8]) -> Result<Manifest> {
        let mut d = Decoder::new(CHUNK, chunk);
        let mut manifest = decode_head(schema, &mut d)?;
        for_each_command(&mut d, |_, _| Ok(()))?;
        manifest.decode_tail(schema, d)?;
        Ok(manifest)
    }

    /// Decodes the two ends of a chunk without walking over the commands between them. `head` is
    /// the chunk's beginning, `tail` what follows the commands.
    pub(crate) fn decode_ends(schema: Schema, head: &[u8], tail: &[u8]) -> Result<Manifest> {
        let mut manifest = decode_head(schema, &mut Decoder::new(CHUNK, head))?;
        manifest.decode_tail(schema, Decoder::new(CHUNK, tail))?;
        Ok(manifest)
    }

    fn decode_tail(&mut self, schema: Schema, mut d: Decoder<'_>) -> Result<()> {
        self.man_pages = list(&mut d, 2, |d| {
            Ok(ManPage {
                section: d.string()?,
                page: d.string()?,
            })
        })?;
        if schema == Schema::V1 {
            self.snapshot_bundle_path = optional(&mut d, Decoder::string)?;
        }
        if d.remaining() != 0 {
            return Err(d.malformed("bytes after the manifest"));
        }
        Ok(())
    }

    /// The chunk's bytes.
    pub(crate) fn encode(&self, schema: Schema, commands: &[CommandTarget]) -> Vec<u8> {
        let mut e = Encoder::default();
        e.u16(schema.number());
        e.str(&self.name);
        e.str(&self.version);
        if schema == Schema::V1 {
            e.boolean(self.agent.is_some());
            if let Some(agent) = &self.agent {
                e.str(&agent.acp_entrypoint);
                e.boolean(agent.snapshot);
                encode_env(&mut e, &agent.env);
                e.uint(agent.launch_args.len() as u64);
                agent.launch_args.iter().for_each(|arg| e.str(arg));
            }
        }
        e.boolean(self.provides.is_some());
        if let Some(provides) = &self.provides {
            encode_env(&mut e, &provides.env);
            e.uint(provides.files.len() as u64);
            for file in &provides.files {
                e.str(&file.source);
                e.str(&file.target);
            }
        }
        e.uint(commands.len() as u64);
        for command in commands {
            e.str(&command.command);
            e.str(&command.entry);
        }
        e.uint(self.man_pages.len() as u64);
        for page in &self.man_pages {
            e.str(&page.section);
            e.str(&page.page);
        }
        if schema == Schema::V1 {
            e.boolean(self.snapshot_bundle_path.is_some());
            if let Some(path) = &self.snapshot_bundle_path {
                e.str(path);
            }
        }
        e.bytes
    }
}

/// Decodes the commands and checks that they are sorted, unique and well named. Also returns the
/// offset of the field that follows them.
pub(crate) fn decode_commands(schema: Schema, chunk: &[u8]) -> Result<(Vec<CommandTarget>, usize)> {
    let mut d = Decoder::new(CHUNK, chunk);
    decode_head(schema, &mut d)?;
    let mut commands: Vec<CommandTarget> = Vec::new();
    for_each_command(&mut d, |command, entry| {
        names::check_command(command.as_bytes())
            .map_err(|e| format!("command {command:?}: {e}"))?;
        if commands
            .last()
            .is_some_and(|last| last.command.as_str() >= command)
        {
            return Err(format!("command {command:?} is out of order or doubled"));
        }
        commands.push(CommandTarget {
            command: command.to_owned(),
            entry: entry.to_owned(),
        });
        Ok(())
    })?;
    Ok((commands, d.position()))
}

fn decode_head(schema: Schema, d: &mut Decoder<'_>) -> Result<Manifest> {
    let version = d.u16()?;
    if version != schema.number() {
        return Err(d.malformed(format!(
            "schema version {version} in a container of version {}",
            schema.number()
        )));
    }
    let mut manifest = Manifest {
        name: d.string()?,
        version: d.string()?,
        ..Manifest::default()
    };
    names::check_component(manifest.name.as_bytes())
        .map_err(|e| d.malformed(format!("package name {:?}: {e}", manifest.name)))?;
    names::check_component(manifest.version.as_bytes())
        .map_err(|e| d.malformed(format!("package version {:?}: {e}", manifest.version)))?;
    if schema == Schema::V1 {
        manifest.agent = optional(d, |d| {
            Ok(Agent {
                acp_entrypoint: d.string()?,
                snapshot: d.boolean()?,
                env: decode_env(d)?,
                launch_args: list(d, 1, Decoder::string)?,
            })
        })?;
    }
    manifest.provides = optional(d, |d| {
        Ok(Provides {
            env: decode_env(d)?,
            files: list(d, 2, |d| {
                Ok(ProvidedFile {
                    source: d.string()?,
                    target: d.string()?,
                })
            })?,
        })
    })?;
    Ok(manifest)
}

/// Walks over the command list, leaving the decoder behind it.
fn for_each_command(
    d: &mut Decoder<'_>,
    mut each: impl FnMut(&str, &str) -> std::result::Result<(), String>,
) -> Result<()> {
    let count = d.count(2)?;
    if count > MAX_COMMANDS as usize {
        return Err(Error::Limit {
            what: "number of commands",
            limit_name: "MAX_COMMANDS",
            limit: MAX_COMMANDS.into(),
            got: count as u64,
        });
    }
    for _ in 0..count {
        let command = d.str()?;
        let entry = d.str()?;
        each(command, entry).map_err(|what| d.malformed(what))?;
    }
    Ok(())
}

fn optional<'a, T>(
    d: &mut Decoder<'a>,
    value: impl FnOnce(&mut Decoder<'a>) -> Result<T>,
) -> Result<Option<T>> {
    d.present()?.then(|| value(d)).transpose()
}

fn list<'a, T>(
    d: &mut Decoder<'a>,
    min: usize,
    mut item: impl FnMut(&mut Decoder<'a>) -> Result<T>,
) -> Result<Vec<T>> {
    let count = d.count(min)?;
    (0..count).map(|_| item(d)).collect()
}

fn decode_env(d: &mut Decoder<'_>) -> Result<BTreeMap<String, String>> {
    let count = d.count(2)?;
    let mut env = BTreeMap::new();
    for _ in 0..count {
        let key = d.string()?;
        let value = d.string()?;
        if env.insert(key, value).is_some() {
            return Err(d.malformed("environment variable given twice"));
        }
    }
    Ok(env)
}

fn encode_env(e: &mut Encoder, env: &BTreeMap<String, String>) {
    e.uint(env.len() as u64);
    for (key, value) in env {
        e.str(key);
        e.str(value);
    }
}
