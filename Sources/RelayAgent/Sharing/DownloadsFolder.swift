// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayStorage

/// The user's folder for downloads. Foundation takes it from the password database, which is not the home of a process with another `HOME`.
enum DownloadsFolder {
    private static let key = Array("XDG_DOWNLOAD_DIR=".utf8)
    private static let variable = Array("$HOME".utf8)

    /// The folder that `user-dirs.dirs` of the desktop names (freedesktop.org, xdg-user-dirs), else `Downloads` in the home. `nil` without a home.
    static func path(environment: [String: String]) -> String? {
        guard let home = HomeDirectory.path(environment: environment) else { return nil }
        let configuration = environment["XDG_CONFIG_HOME"].flatMap { isAbsolute($0.utf8) ? $0 : nil } ?? home + "/.config"
        let text = FileManager.default.contents(atPath: configuration + "/user-dirs.dirs").map { [UInt8]($0) } ?? []
        let lines = text.split(separator: UInt8(ascii: "\n"))
        let quote = UInt8(ascii: "\"")
        guard let value = lines.last(where: { $0.starts(with: key) })?.dropFirst(key.count), value.count > 2, value.first == quote,
            value.last == quote, let path = String(validating: value.dropFirst().dropLast(), as: UTF8.self)
        else { return home + "/Downloads" }
        if path.utf8.starts(with: variable + "/".utf8) {
            return home + String(decoding: path.utf8.dropFirst(variable.count), as: UTF8.self)
        }
        return isAbsolute(path.utf8) ? path : home + "/Downloads"
    }

    private static func isAbsolute(_ path: String.UTF8View) -> Bool { path.first == UInt8(ascii: "/") }
}
