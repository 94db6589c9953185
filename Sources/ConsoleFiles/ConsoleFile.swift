// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import CConsoleFiles

/// A file of the folder `Web`, embedded in the program.
package struct ConsoleFile: Hashable, Sendable {
    /// The path from the page, such as `views/devices.js`.
    package let path: String
    package let bytes: [UInt8]

    package static let style = ConsoleFile(cconsole_style())
    /// The product's mark, which is also the icon of its pages.
    package static let mark = ConsoleFile(cconsole_mark())
    package static let icons = ConsoleFile(cconsole_icons())
    /// The script of the issuer's pages that shows times in the reader's zone.
    package static let times = ConsoleFile(cconsole_times())
    /// The script of the issuer's forms with passkeys.
    package static let passkey = ConsoleFile(cconsole_passkey())

    package var text: String { String(decoding: bytes, as: UTF8.self) }

    package var mediaType: String {
        switch path.split(separator: "." as Character).last {  // ASCII only
        case "css": "text/css; charset=utf-8"
        case "html": "text/html; charset=utf-8"
        case "js": "text/javascript; charset=utf-8"
        case "json": "application/json"
        case "svg": "image/svg+xml"
        default: "application/octet-stream"
        }
    }

    /// The words of the issuer's pages, a file for each language.
    package static let words: [ConsoleFile] = all { cconsole_words($0) }

    /// All files of a list whose end has no path.
    static func all(_ next: (Int) -> CConsoleFile) -> [ConsoleFile] {
        var files: [ConsoleFile] = []
        while true {
            let file = next(files.count)
            guard file.path != nil else { return files }
            files.append(ConsoleFile(file))
        }
    }

    private init(_ file: CConsoleFile) {
        path = file.path.map { String(cString: $0) } ?? ""
        bytes = Array(UnsafeBufferPointer(start: file.bytes, count: file.count))
    }
}
