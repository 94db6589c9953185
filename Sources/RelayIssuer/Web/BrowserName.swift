// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The names of browsers for people.
enum BrowserName {
    /// The token of each browser in the header `User-Agent`. Most browsers also have the tokens of browsers further down the list.
    private static let browsers = [
        ("Edg/", "Edge"), ("EdgA/", "Edge"), ("EdgiOS/", "Edge"), ("OPR/", "Opera"), ("SamsungBrowser/", "Samsung Internet"),
        ("Firefox/", "Firefox"), ("FxiOS/", "Firefox"), ("CriOS/", "Chrome"), ("Chrome/", "Chrome"), ("Safari/", "Safari"),
    ]
    private static let systems = [
        ("Android", "Android"), ("iPhone", "iPhone"), ("iPad", "iPad"), ("Windows", "Windows"), ("CrOS", "ChromeOS"),
        ("Macintosh", "macOS"), ("Linux", "Linux"),
    ]

    /// Returns a name such as `Firefox (Windows)`, which needs no translation. For a program that is not a known browser, returns the name that it gives itself. The
    /// name is short, and cannot imitate other text.
    /// - Parameter agent: The header `User-Agent`.
    static func of(_ agent: String) -> String {
        let shown = DisplayText.sanitized(agent).unicodeScalars.prefix(WebSession.maximumAgentCharacters)
        guard agent.hasPrefix("Mozilla/5.0 ("), let browser = browsers.first(where: { agent.contains($0.0) })?.1 else {
            return String(String.UnicodeScalarView(shown))
        }
        let system = systems.first { agent.contains($0.0) }?.1
        return browser + (system.map { " (\($0))" } ?? "")
    }
}
