// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import CConsoleFiles

/// Parts of pages, as HTML.
package enum PageParts {
    package static let product = "Device Relay"

    /// The product's mark.
    package static let mark = inline(ConsoleFile.mark.text)

    /// Returns an icon for a kind of device, or another thing of `icons.svg`.
    /// - Parameter name: Any text. A text that names no icon gets the one of a device.
    package static func icon(_ name: String) -> String { icons[name] ?? icons["device"] ?? "" }

    /// The header of a page.
    /// - Parameters:
    ///   - host: Where the page comes from, as HTML.
    ///   - operatorName: Who runs that place, as HTML.
    package static func header(host: String?, operatorName: String? = nil) -> String {
        var place = operatorName.map { "<b>\($0)</b>" } ?? ""
        if let host { place += "<span>\(host)</span>" }
        return """
            <header class="top">
            \(mark)
            <span class="product">\(product)</span>
            \(place.isEmpty ? "" : "<span class=\"place\">\(place)</span>")
            </header>
            """
    }

    private static let icons: [String: String] = Dictionary(
        ConsoleFile.icons.text.split(separator: "<symbol id=\"").dropFirst().compactMap { symbol in
            let parts = symbol.split(separator: "</symbol>")[0].split(separator: "\"", maxSplits: 1)
            guard parts.count == 2 else { return nil }
            return (String(parts[0]), "<svg class=\"icon\" aria-hidden=\"true\"\(parts[1])</svg>")
        },
        uniquingKeysWith: { first, _ in first }
    )

    /// SVG within HTML has no comment on its licence, and needs no namespace.
    private static func inline(_ svg: String) -> String {
        guard let start = svg.firstRange(of: "<svg")?.lowerBound else { return "" }
        let namespace = " xmlns=\"http://www.w3.org/2000/svg\""
        return svg[start...].split(separator: namespace, maxSplits: 1).joined().split(separator: "\n").joined()
    }
}
