// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayComposition
import RelayServer
import Testing

/// Which account an operator's text means.
@Suite struct AccountChoiceTests {
    private func account(_ id: String, _ name: String?, subject: String? = nil) throws -> AdminAccount {
        var object: [String: Any] = ["id": id, "disabled": false, "created": 0, "endpoints": 0]
        object["name"] = name
        object["identities"] = subject.map { [["issuer": "embedded", "subject": $0, "added": 0]] } ?? []
        return try JSONDecoder().decode(AdminAccount.self, from: JSONSerialization.data(withJSONObject: object))
    }

    private func meant(_ text: String, _ accounts: [AdminAccount]) -> Result<String, AdminError> {
        Result { () throws(AdminError) in try accounts.meant(by: text).id }
    }

    /// Names that the relay takes for one: see `AccountName`.
    private static let alike = [
        ["zoe", "ZOE", "Zoe", " zoe ", "\u{FF3A}oe", "zo\u{200D}e"], ["Zo\u{EB}", "zoe\u{308}", "ZO\u{CB}"], ["stra\u{DF}e", "STRASSE"],
    ]

    @Test(arguments: alike) func everySpellingMeansTheAccount(spellings: [String]) throws {
        for name in spellings {
            let accounts = [try account("1", "other"), try account("2", name), try account("3", nil)]
            for text in spellings { #expect(meant(text, accounts) == .success("2"), "\(text) of \(name)") }
        }
    }

    @Test(arguments: alike) func nameOfSeveralAccountsMeansNone(spellings: [String]) throws {
        for name in spellings {
            for other in spellings {
                let accounts = [try account("1", name), try account("2", other)]
                for text in spellings {
                    guard case .failure(let error) = meant(text, accounts) else {
                        Issue.record("\(text)")
                        continue
                    }
                    #expect(error.description.contains("several accounts") && error.description.contains("1, 2"), "\(error)")
                }
                // Their ids tell them apart.
                #expect(meant("1", accounts) == .success("1"))
                #expect(meant("2", accounts) == .success("2"))
            }
        }
    }

    @Test func idTakesPrecedenceOverANameAndIsExact() throws {
        let accounts = [try account("a1", "b2"), try account("b2", "zoe"), try account("c3", nil, subject: "s4"), try account("d5", "s4")]
        #expect(meant("b2", accounts) == .success("b2"))
        #expect(meant("s4", accounts) == .success("c3"))
        #expect(meant("A1", accounts) == .failure(AdminError("there is no such account: see `relayd account list`")))
        for text in ["", " ", "\u{1B}[2J", "nobody"] {
            guard case .failure = meant(text, accounts) else {
                Issue.record("\(text)")
                continue
            }
        }
    }
}
