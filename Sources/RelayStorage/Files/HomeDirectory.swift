// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// The home folder of the user that runs this process. All default places of files are below it.
package enum HomeDirectory {
    /// `HOME` if it is an absolute path, else what the password database says. An empty variable is an unset one.
    /// - Returns: `nil` if neither names an absolute path.
    package static func path(environment: [String: String]) -> String? {
        path(environment: environment, user: passwordDatabase)
    }

    static func path(environment: [String: String], user: () -> String?) -> String? {
        if let set = environment["HOME"], isAbsolute(set) { return set }
        return user().flatMap { isAbsolute($0) ? $0 : nil }
    }

    private static func isAbsolute(_ path: String) -> Bool { path.utf8.first == UInt8(ascii: "/") }

    private static func passwordDatabase() -> String? {
        var entry = passwd()
        var found: UnsafeMutablePointer<passwd>?
        var buffer = [CChar](repeating: 0, count: 16 << 10)
        return buffer.withUnsafeMutableBufferPointer { buffer -> String? in
            guard let base = buffer.baseAddress, getpwuid_r(geteuid(), &entry, base, buffer.count, &found) == 0, found != nil,
                let directory = entry.pw_dir
            else { return nil }
            return String(validatingCString: directory)
        }
    }
}
