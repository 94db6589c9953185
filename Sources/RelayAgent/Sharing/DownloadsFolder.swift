// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayStorage

/// The user's folder for downloads. Foundation takes it from the password database, which is not the home of a process with another `HOME`.
enum DownloadsFolder {
    private static let key = "XDG_DOWNLOAD_DIR="

    /// The folder that `user-dirs.dirs` of the desktop names (freedesktop.org, xdg-user-dirs), else `Downloads` in the home. `nil` without a home.
    static func path(environment: [String: String]) -> String? {
        guard let home = HomeDirectory.path(environment: environment) else { return nil }
        let set = environment["XDG_CONFIG_HOME"] ?? ""
        let configuration = set.hasPrefix("/") ? set : home + "/.config"
        let text = (try? String(contentsOfFile: configuration + "/user-dirs.dirs", encoding: .utf8)) ?? ""
        let values = text.split(separator: "\n").filter { $0.hasPrefix(key) }.map { $0.dropFirst(key.count) }
        guard let value = values.last, value.count > 2, value.hasPrefix("\""), value.hasSuffix("\"") else { return home + "/Downloads" }
        let path = value.dropFirst().dropLast()
        if path.hasPrefix("$HOME/") { return home + path.dropFirst("$HOME".count) }
        return path.hasPrefix("/") ? String(path) : home + "/Downloads"
    }
}
