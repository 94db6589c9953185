// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

#if canImport(Security)
public import RelayProtocol
import Security

/// Stores keys in the app's keychain, on this device only. They can be read once the device was unlocked after its start, so that an app can
/// connect in the background. On macOS the app must be signed with a keychain access group.
public struct KeychainKeyStorage: KeyStorage {
    private let service: String
    private let accessGroup: String?

    /// Creates a storage; the keychain is used when the platform starts.
    /// - Parameters:
    ///   - service: The service of the keychain's items. Each storage directory needs its own, because keys of unknown endpoints are destroyed.
    ///   - accessGroup: The access group that an app and its extensions share; `nil` for the app's default group.
    public init(service: String, accessGroup: String? = nil) {
        self.service = service
        self.accessGroup = accessGroup
    }

    /// See `KeyStorage`.
    public func identityKey(of endpoint: String) throws -> (any IdentityKey)? {
        try data(of: "\(endpoint)/identity").map { try P256SigningKey(rawRepresentation: [UInt8]($0)) }
    }

    /// See `KeyStorage`.
    public func makeIdentityKey(of endpoint: String) throws -> any IdentityKey {
        let key = P256SigningKey()
        try store(Data(key.rawRepresentation), as: "\(endpoint)/identity")
        return key
    }

    /// See `KeyStorage`.
    public func agreementKey(_ number: Int, of endpoint: String) throws -> (any AgreementKey)? {
        try data(of: "\(endpoint)/agreement-\(number)").map { try P256AgreementKey(rawRepresentation: [UInt8]($0)) }
    }

    /// See `KeyStorage`.
    public func makeAgreementKey(_ number: Int, of endpoint: String) throws -> any AgreementKey {
        let key = P256AgreementKey()
        try store(Data(key.rawRepresentation), as: "\(endpoint)/agreement-\(number)")
        return key
    }

    /// See `KeyStorage`.
    public func destroyAgreementKey(_ number: Int, of endpoint: String) throws {
        try delete("\(endpoint)/agreement-\(number)")
    }

    /// See `KeyStorage`.
    public func linkKey(of endpoint: String) throws -> (any LinkKey)? {
        try data(of: "\(endpoint)/link").map { try P256LinkKey(rawRepresentation: [UInt8]($0)) }
    }

    /// See `KeyStorage`.
    public func makeLinkKey(of endpoint: String) throws -> any LinkKey {
        let key = P256LinkKey()
        try store(Data(key.rawRepresentation), as: "\(endpoint)/link")
        return key
    }

    /// See `KeyStorage`.
    public func destroyKeys(of endpoint: String) throws {
        for account in try accounts() where Self.endpoint(of: account) == endpoint { try delete(account) }
    }

    /// See `KeyStorage`.
    public func endpoints() throws -> [String] { Set(try accounts().map(Self.endpoint)).sorted() }

    private static func endpoint(of account: String) -> String {
        String(decoding: account.utf8.prefix { $0 != UInt8(ascii: "/") }, as: UTF8.self)
    }

    // MARK: Items

    /// One item, or all items of the service.
    private func query(_ account: String? = nil) -> [String: Any] {
        var query: [String: Any] = [
            kSecClass as String: kSecClassGenericPassword,
            kSecAttrService as String: service,
            kSecUseDataProtectionKeychain as String: true,
        ]
        if let account { query[kSecAttrAccount as String] = account }
        if let accessGroup { query[kSecAttrAccessGroup as String] = accessGroup }
        return query
    }

    private func data(of account: String) throws -> Data? {
        var query = query(account)
        query[kSecReturnData as String] = true
        return try result(of: query) as? Data
    }

    private func accounts() throws -> [String] {
        var query = query()
        query[kSecMatchLimit as String] = kSecMatchLimitAll
        query[kSecReturnAttributes as String] = true
        let items = try result(of: query) as? [[String: Any]]
        return (items ?? []).compactMap { $0[kSecAttrAccount as String] as? String }
    }

    /// `nil` if there is no such item.
    private func result(of query: [String: Any]) throws -> CFTypeRef? {
        var result: CFTypeRef?
        let status = SecItemCopyMatching(query as CFDictionary, &result)
        guard status != errSecItemNotFound else { return nil }
        try KeychainError.check(status)
        return result
    }

    private func store(_ data: Data, as account: String) throws {
        let query = query(account)
        let value: [String: Any] = [
            kSecValueData as String: data,
            kSecAttrAccessible as String: kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly,
        ]
        var status = SecItemAdd(query.merging(value) { $1 } as CFDictionary, nil)
        if status == errSecDuplicateItem { status = SecItemUpdate(query as CFDictionary, value as CFDictionary) }
        try KeychainError.check(status)
    }

    private func delete(_ account: String) throws {
        let status = SecItemDelete(query(account) as CFDictionary)
        if status != errSecItemNotFound { try KeychainError.check(status) }
    }
}

/// The keychain did not do what it was asked for.
public struct KeychainError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The code of the Security framework.
    public let status: Int32

    fileprivate static func check(_ status: OSStatus) throws(KeychainError) {
        guard status == errSecSuccess else { throw KeychainError(status: status) }
    }

    /// The code and its meaning.
    public var description: String {
        let meaning = SecCopyErrorMessageString(status, nil) as String?
        return "the keychain answered \(status)\(meaning.map { " (\($0))" } ?? "")"
    }
}
#endif
