// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import CVersion
import RelayProtocol

/// Which build a program is, as `--version` prints it.
package enum BuildVersion {
    /// By Semantic Versioning. This is the only place that states it: `scripts/common.sh` reads this line for packages.
    package static let release = "0.1.0"

    /// The commit; empty if it is not known.
    package static var commit: String { String(cString: cversion_commit()) }

    /// Such as `0.1.0 (commit 8d9401d4a6f0, protocol 1)`. `scripts/install` and `scripts/demo` tell the build its commit; a plain
    /// `swift build` knows none.
    package static var text: String {
        "\(release) (\(commit.isEmpty ? "commit unknown" : "commit \(commit)"), protocol \(ProtocolVersion.current))"
    }
}
