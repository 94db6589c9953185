// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ConsoleFiles
import Crypto
import CryptoExtras
import Foundation
import RelayProtocol

/// A stored password hash: `$scrypt$ln=17,r=8,p=1$SALT$HASH` (PHC string format; base64 without padding). The text contains its own cost,
/// so that the cost of new hashes can change.
package struct PasswordHash: Hashable, Sendable {
    static let saltBytes = 16
    static let hashBytes = 32

    /// The cost of one hash. It takes 128 · 2^logRounds · blockSize bytes of memory.
    struct Cost: Hashable, Sendable {
        var logRounds = 17
        var blockSize = 8
        var parallelism = 1
    }

    let cost: Cost
    let salt: [UInt8]
    let hash: [UInt8]

    private init(cost: Cost, salt: [UInt8], hash: [UInt8]) {
        self.cost = cost
        self.salt = salt
        self.hash = hash
    }

    /// Hashes a password. Takes a long time and much memory, by design: only `PasswordHasher` calls it.
    init(_ password: Secret<String>, cost: Cost) {
        let salt = randomBytes(PasswordHash.saltBytes)
        self.init(cost: cost, salt: salt, hash: PasswordHash.derive(password, salt: salt, cost: cost))
    }

    /// Makes a hash that no password matches.
    init(decoyOf cost: Cost) {
        self.init(cost: cost, salt: randomBytes(PasswordHash.saltBytes), hash: randomBytes(PasswordHash.hashBytes))
    }

    /// Reads the stored text.
    package init?(parsing text: String) {
        let parts = text.utf8.split(separator: UInt8(ascii: "$"), omittingEmptySubsequences: false).map {
            String(decoding: $0, as: UTF8.self)
        }
        guard parts.count == 5, parts[0].isEmpty, parts[1] == "scrypt", let cost = Cost(parsing: parts[2]),
            let salt = PasswordHash.decode(parts[3]), salt.count == PasswordHash.saltBytes, let hash = PasswordHash.decode(parts[4]),
            hash.count == PasswordHash.hashBytes
        else { return nil }
        self.init(cost: cost, salt: salt, hash: hash)
    }

    package var text: String { "$scrypt$\(cost.text)$\(PasswordHash.encode(salt))$\(PasswordHash.encode(hash))" }

    /// Whether it is the hash of this password. Takes as long as a hash.
    func matches(_ password: Secret<String>) -> Bool {
        let derived = PasswordHash.derive(password, salt: salt, cost: cost)
        // The result is empty if the derivation failed.
        guard let derived = Digest256(bytes: derived), let hash = Digest256(bytes: hash) else { return false }
        return derived == hash
    }

    private static func derive(_ password: Secret<String>, salt: [UInt8], cost: Cost) -> [UInt8] {
        let bytes = Array(OpaqueString.prepare(password).exposed.utf8)
        guard !bytes.isEmpty else { return [] }
        let key = try? KDF.Scrypt.deriveKey(
            from: bytes,
            salt: salt,
            outputByteCount: hashBytes,
            rounds: 1 << cost.logRounds,
            blockSize: cost.blockSize,
            parallelism: cost.parallelism
        )
        return key?.withUnsafeBytes { Array($0) } ?? []
    }

    private static func encode(_ bytes: [UInt8]) -> String {
        String(decoding: Base64.standard.encode(bytes).utf8.filter { $0 != UInt8(ascii: "=") }, as: UTF8.self)
    }

    private static func decode(_ text: String) -> [UInt8]? {
        Base64.standard.decode(text + String(repeating: "=", count: (4 - text.utf8.count % 4) % 4))
    }
}

extension PasswordHash.Cost {
    var text: String { "ln=\(logRounds),r=\(blockSize),p=\(parallelism)" }

    /// Reads the parameters within bounds, so that a damaged row does not take all memory.
    init?(parsing text: String) {
        let pairs = text.utf8.split(separator: UInt8(ascii: ",")).map { String(decoding: $0, as: UTF8.self) }
        func number(_ place: Int, _ name: String, _ range: ClosedRange<Int>) -> Int? {
            guard pairs.count == 3, pairs[place].hasPrefix(name), let number = Int(pairs[place].dropFirst(name.count)),
                range.contains(number)
            else { return nil }
            return number
        }
        guard let logRounds = number(0, "ln=", 1...20), let blockSize = number(1, "r=", 1...16), let parallelism = number(2, "p=", 1...4)
        else { return nil }
        self.init(logRounds: logRounds, blockSize: blockSize, parallelism: parallelism)
    }
}

/// The rules for new passwords.
enum PasswordRule {
    static let minimumCharacters = 10
    static let maximumBytes = 256

    /// Whether a typed text has an allowed length. The prepared form counts, because other forms of the same characters may be longer.
    static func hasAllowedLength(_ typed: Secret<String>) -> Bool {
        (1...maximumBytes).contains(OpaqueString.prepare(typed).exposed.utf8.count)
    }

    /// Returns why the text may not become the password of this user; `nil` if it may.
    static func objection(to password: Secret<String>, name: String) -> PageText? {
        if !OpaqueString.isAllowed(password) { return PageText("password.control") }
        let text = OpaqueString.prepare(password).exposed
        if text.utf8.count > maximumBytes { return PageText("password.long", ["bytes": "\(maximumBytes)"]) }
        if text.unicodeScalars.count < minimumCharacters { return PageText("password.short", ["characters": "\(minimumCharacters)"]) }
        if Set(text.unicodeScalars).count < 5 || resembles(text, name) {
            return PageText("password.easy")
        }
        return nil
    }

    /// Returns why a text that was typed twice may not become the password of this user; `nil` if it may.
    static func objection(to password: Secret<String>, repeated: String?, name: String) -> PageText? {
        if let objection = objection(to: password, name: name) { return objection }
        let typed = OpaqueString.prepare(Secret(repeated ?? "")).exposed
        return typed.utf8.elementsEqual(OpaqueString.prepare(password).exposed.utf8) ? nil : PageText("password.differ")
    }

    /// Whether a password is the name, once or repeated. Case is ignored, and so are digits and punctuation between and around.
    private static func resembles(_ password: String, _ name: String) -> Bool {
        func letters(_ text: String) -> [Unicode.Scalar] { AccountName.folded(text).unicodeScalars.filter(\.properties.isAlphabetic) }
        let (password, name) = (AccountName.folded(password), AccountName.folded(name))
        if password.utf8.elementsEqual(name.utf8) { return true }
        let (typed, own) = (letters(password), letters(name))
        guard !own.isEmpty, !typed.isEmpty, typed.count.isMultiple(of: own.count) else { return false }
        return typed.indices.allSatisfy { typed[$0] == own[$0 % own.count] }
    }
}
