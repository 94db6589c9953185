// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import CConsoleFiles

/// The console that an agent serves to its user's browser: files without data, which speak the agent's API.
package enum LocalConsole {
    /// The file of the address `/`.
    package static let index = "index.html"

    /// All files, by their path below the address of the console.
    package static let files: [String: ConsoleFile] = {
        let all = [ConsoleFile.style, .mark, .icons] + ConsoleFile.all { cconsole_file($0) }
        return Dictionary(all.map { ($0.path, $0) }, uniquingKeysWith: { first, _ in first })
    }()

    /// The headers of each file, in addition to `Content-Type`. The page loads nothing from elsewhere, runs no text as code, cannot be
    /// framed, and keeps no older version of itself.
    package static let headers: [(name: String, value: String)] = [
        (
            "Content-Security-Policy",
            [
                "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'",
                "form-action 'none'", "base-uri 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'",
                "trusted-types 'none'",
            ].joined(separator: "; ")
        ),
        ("Referrer-Policy", "no-referrer"),
        ("X-Content-Type-Options", "nosniff"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Permissions-Policy", "camera=(), clipboard-write=(self), geolocation=(), microphone=(), payment=(), usb=()"),
        ("Cache-Control", "no-cache"),
    ]
}
