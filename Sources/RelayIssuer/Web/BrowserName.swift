// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// What people call a browser.
enum BrowserName {
    /// The mark of each browser in the header `User-Agent`. Most browsers have the marks of those behind them, too.
    private static let browsers = [
        ("Edg/", "Edge"), ("EdgA/", "Edge"), ("EdgiOS/", "Edge"), ("OPR/", "Opera"), ("SamsungBrowser/", "Samsung Internet"),
        ("Firefox/", "Firefox"), ("FxiOS/", "Firefox"), ("CriOS/", "Chrome"), ("Chrome/", "Chrome"), ("Safari/", "Safari"),
    ]
    private static let systems = [
        ("Android", "Android"), ("iPhone", "iPhone"), ("iPad", "iPad"), ("Windows", "Windows"), ("CrOS", "ChromeOS"),
        ("Macintosh", "macOS"), ("Linux", "Linux"),
    ]

    /// Such as `Firefox on Windows`; for a program that is no known browser, the name that it gives itself. It is short, and nothing in it
    /// imitates other text.
    /// - Parameter agent: The header `User-Agent`.
    static func of(_ agent: String) -> String {
        let shown = DisplayText.sanitized(agent).unicodeScalars.prefix(WebSession.maximumAgentCharacters)
        guard agent.hasPrefix("Mozilla/5.0 ("), let browser = browsers.first(where: { agent.contains($0.0) })?.1 else {
            return String(String.UnicodeScalarView(shown))
        }
        let system = systems.first { agent.contains($0.0) }?.1
        return browser + (system.map { " on \($0)" } ?? "")
    }
}
