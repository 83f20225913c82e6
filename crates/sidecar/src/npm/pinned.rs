//! Packages this project itself asks for, each with the hash of what was published.
//!
//! The hash is the registry's `dist.integrity`. A download with another one is refused, whatever
//! the registry says by then.

/// A package whose content is known in advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pinned {
    /// Name on the registry.
    pub name: &'static str,
    /// Exact version.
    pub version: &'static str,
    /// Subresource-integrity string of the published archive.
    pub integrity: &'static str,
}

/// The common commands, which a VM gets when no package is named.
pub const COMMON: &str = "npm:@agentos-software/common@0.2.21";

/// A package of 16,279 entries, which the benches and the format's tests read.
pub const LARGE: &str = "npm:@agentos-software/pi@0.2.7";

/// The published runtime that tests and benches compare with.
pub const PEER: (&str, &str) = ("@rivet-dev/agentos-core", "0.2.21");

/// Every pinned package.
pub const PINNED: &[Pinned] = &[
    Pinned {
        name: "@agentos-software/common",
        version: "0.2.21",
        integrity: "sha512-CD0NDNvrhJHgQ78mfiFYI0safV1zB/sb3Q5fdJqS4Fq4ZwPAZBmPRfNg83uCO1LH8CWxzRtLb39YDIdj/v3Lhw==",
    },
    Pinned {
        name: "@agentos-software/coreutils",
        version: "0.3.4",
        integrity: "sha512-tGd0gQjUjHnm+5KgOBwidwUtlkKnl9biQuD7X2sZl15VOhYqUJpnyLF33h/nF3r9WtOTclSiLj/dc2xCxmAXnw==",
    },
    Pinned {
        name: "@agentos-software/sed",
        version: "0.3.4",
        integrity: "sha512-J10nZnZmme2SvXK5WMK2unQlOVncMQVUCS20GZB579a2gNoayLJYHGvfJ9a4+42wOHgDKL1u74byWlydCkEyOQ==",
    },
    Pinned {
        name: "@agentos-software/grep",
        version: "0.3.4",
        integrity: "sha512-Bta2Ljl+kCX/3Bjg06Q9N9LPRcf13S92lHRaYG+CeGVDXabIIgkHLUGIQlI1OKuIr7IRAktjgelUAuJnxGFvvw==",
    },
    Pinned {
        name: "@agentos-software/gawk",
        version: "0.3.4",
        integrity: "sha512-NlU6nGxoqIUc1I2zdBHFwH04gE0tBygP2FcBO12VBptty7lbgq1CNLk909jIcSNFEwlm3VRPHeZNkbdVKZ2Ujg==",
    },
    Pinned {
        name: "@agentos-software/findutils",
        version: "0.3.4",
        integrity: "sha512-wjBWE3lkXe70fRj6da1+2MM/7KlPcBRhr2BycvgvAtglOT/0PtabFU9CrDuX3Vm/8acU/8tw35+WeitPOLi9mg==",
    },
    Pinned {
        name: "@agentos-software/diffutils",
        version: "0.3.4",
        integrity: "sha512-a5Do+ERMdHPwT0Vrp35fxSgrsJNK8wCsYX8dOAomH9N+xJyV2Hb7/LLyp7XxqGk9BEjMeA6UhbH5ZY/HAlx5sQ==",
    },
    Pinned {
        name: "@agentos-software/tar",
        version: "0.3.5",
        integrity: "sha512-hSf6PY4q1luIomFSDgVHxVDDIPdAVZxdgwrQFEYH4aIE6TXX9qatVmzR36uYLWpnFGAZTR6srREGoTnmOGV4Lg==",
    },
    Pinned {
        name: "@agentos-software/gzip",
        version: "0.3.4",
        integrity: "sha512-l7Y/Vwiwsqgna68yYwdNCnUBPGBg5zdmtjEFeG3hnDDFLe/02h17q0gUIqJmDBIAy1q9GoizqcFi7zXO2xygKg==",
    },
    Pinned {
        name: "@agentos-software/pi",
        version: "0.2.7",
        integrity: "sha512-nOdwksByJgTqt92Ya84CzTGxpVFwGI6gkGWaCD/mmvP11JRA++1nshNdbig2mtiaxT7VG3ovWJmK7ZLTTzkhPA==",
    },
];

/// The pinned entry of `name` at `version`, if there is one.
pub fn find(name: &str, version: &str) -> Option<&'static Pinned> {
    PINNED
        .iter()
        .find(|p| p.name == name && p.version == version)
}
