// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import RelayProtocol

@Suite struct TraceContextTests {
    private static let valid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    @Test func traceparentIsTaken() throws {
        #expect(try #require(TraceContext(rawValue: Self.valid)).rawValue == Self.valid)
    }

    @Test(arguments: [
        "", valid + "-more", valid.uppercased(), "01" + valid.dropFirst(2), valid.replacing("b7ad6b7169203331", with: "0000000000000000"),
        valid.replacing("0af7651916cd43dd8448eb211c80319c", with: "00000000000000000000000000000000"), valid.replacing("-", with: "_"),
        String(valid.dropLast()), valid.replacing("01", with: "0g"), "\u{0}" + valid.dropFirst(), "secret=1",
    ])
    func otherTextIsNot(_ text: String) { #expect(TraceContext(rawValue: text) == nil) }

    /// The relay, the SDK and every decoder of a header reject it, and an absent one changes no encoding.
    @Test func openingAndTunnelKeepTheContext() throws {
        let trace = try #require(TraceContext(rawValue: Self.valid))
        let opening = SessionOpening(serviceName: "a", trace: trace)
        #expect(try SessionOpening(opening.map) == opening)
        var map = opening.map
        map["trace"] = .string("secret")
        #expect(throws: SessionError.invalidMetadata) { try SessionOpening(map) }
        #expect(SessionOpening(serviceName: "a").map == ["service": .string("a")])
    }
}
