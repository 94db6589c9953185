// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import Testing

@testable import RelayIssuer

/// The fuzzer's seeds and every input that once failed, through the readers as they are built for users.
@Suite struct FuzzCorpusTests {
    private static func inputs(_ target: String) throws -> [[UInt8]] {
        let fuzzing = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../FuzzTesting").standardizedFileURL
        return try ["Corpus", "FailCases"].flatMap { kind in
            let folder = fuzzing.appending(path: "\(kind)/\(target)")
            let names = (try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? []
            return try names.sorted().map { [UInt8](try Data(contentsOf: folder.appending(path: $0))) }
        }
    }

    @Test func corpusOfFormsIsReadOrRefused() throws {
        var (forms, credentials, clients) = (0, 0, 0)
        for input in try Self.inputs("FuzzForms") {
            let bytes = Array(input.dropFirst())
            switch (input.first ?? 0) % 3 {
            case 0:
                guard let form = try? Form(parsing: bytes) else { continue }
                #expect(try Form(parsing: Array(form.encoded.utf8)).encoded == form.encoded)
                _ = try? TokenRequest(form)
                forms += 1
            case 1: credentials += BasicCredentials(authorization: [String(decoding: bytes, as: UTF8.self)]) == nil ? 0 : 1
            default: clients += (try? RegistrationRequest(json: JSONValue(parsing: bytes))) == nil ? 0 : 1
            }
        }
        #expect(forms > 10 && credentials > 2 && clients > 1)
    }

    @Test func corpusOfPasskeysIsReadOrRefused() throws {
        var (data, clients, valid) = (0, 0, 0)
        for input in try Self.inputs("FuzzPasskeys") {
            let bytes = Array(input.dropFirst())
            switch (input.first ?? 0) % 4 {
            case 0: data += AuthenticatorData(parsing: bytes) == nil ? 0 : 1
            case 1: clients += (try? PasskeyClientData(json: JSONValue(parsing: bytes))) == nil ? 0 : 1
            case let kind:
                let length = bytes.prefix(2).reduce(0) { $0 << 8 | Int($1) }
                let (spki, signature) = (Array(bytes.dropFirst(2).prefix(length)), Array(bytes.dropFirst(2 + length)))
                let key = PasskeyKey(algorithm: kind == 2 ? -7 : -257, spki: spki)
                valid += key?.isValid(signature, for: Array("a message".utf8)) == true ? 1 : 0
            }
        }
        #expect(data == 4 && clients == 3 && valid == 2)
    }
}
