// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayServer
import Testing

/// What an operator reads of a file of issuers with a fault.
@Suite struct IssuersFileTests {
    private static let valid = """
        {
          "embedded": true,
          "issuers": [
            {"issuer": "https://login.example", "audience": ["https://relay.example"], "autoProvision": false}
          ]
        }
        """

    private func error(_ bytes: some Sequence<UInt8>) throws -> String? {
        let path = FileManager.default.temporaryDirectory.appending(path: "issuers-\(UUID().uuidString).json").path
        defer { try? FileManager.default.removeItem(atPath: path) }
        try Data(bytes).write(to: URL(filePath: path))
        do {
            _ = try IssuersFile(path: path, environment: [:])
            return nil
        } catch {
            let begin = "issuersFile: \(path): "
            #expect(error.description.hasPrefix(begin))
            return String(error.description.dropFirst(begin.count))
        }
    }

    @Test(arguments: [
        ("{", "line 1, column 2: the JSON text ends too early; a bracket or a quotation mark is not closed"),
        ("[]", "this is not a JSON object, {…}"),
        ("{\"issuers\": []} x", "line 1, column 17: the JSON text has ended before this"),
        ("{\n  \"embedded\": true,\n}", "line 3, column 1: a name in quotation marks is expected; the last entry has no comma behind it"),
        (
            "{\n  \"embedded\": yes\n}",
            "line 2, column 15: this is not JSON; a comma, a colon, a bracket, a quotation mark or a value is expected"
        ),
        ("{\"embedded\": \"yes\"}", "embedded has the wrong type"),
        ("{\"issuers\": [{}]}", "entry 1: issuers.0.issuer is missing"),
        ("{\"issuers\": [7]}", "entry 1: this is not a JSON object, {…}"),
        ("{\"issuer\": []}", "issuer: there is no such member"),
    ])
    func faultIsNamedWithItsPlace(text: String, message: String) throws { #expect(try error(text.utf8) == message) }

    @Test func textThatIsNotUTF8IsNamed() throws {
        #expect(try error(Array("{\n\"embedded\": \"".utf8) + [0xFF] + Array("\"}".utf8)) == "line 2: this is not UTF-8")
    }

    /// A file that is cut off anywhere, and one with any byte replaced, is read or gets a text for people.
    @Test func everyFaultHasATextForPeople() throws {
        #expect(try error(Self.valid.utf8) == nil)
        let bytes = Array(Self.valid.utf8)
        for place in bytes.indices {
            let cut = try #require(try error(bytes[..<place]))
            #expect(cut.hasPrefix("line "), "cut at \(place): \(cut)")
            for byte in [UInt8(ascii: "}"), UInt8(ascii: "x"), 0, 0xFF] {
                var changed = bytes
                changed[place] = byte
                guard let said = try error(changed) else { continue }
                #expect(!["malformed(", "Error", "RelayProtocol"].contains { said.contains($0) }, "\(byte) at \(place): \(said)")
            }
        }
    }
}
