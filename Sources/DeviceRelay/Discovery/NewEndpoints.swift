// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import RelayProtocol

extension ConnectedDevicesPlatform {
    /// The endpoints of an account that are not approved yet, the earliest first: the current list, then a new list after each change.
    /// For a screen on which a person approves or refuses them.
    ///
    /// There is no element before the relay has listed all endpoints. A new endpoint for which another device vouches appears for the
    /// moment until the voucher arrives. The sequence ends when the platform is shut down.
    public func newEndpoints(for account: ConnectedDevicesAccount) -> AsyncValues<[NewEndpoint]> {
        AsyncValues(directories) { $0[account.id]?.newEndpoints }
    }

    /// Approves a new endpoint for a person. From then on the endpoint, and all others on its device, are known and verified here and, by
    /// this endpoint's voucher, on the account's other devices. Returns when the relay has the voucher, or there is no connection.
    /// - Throws: `AccountError` with `notFound` if the endpoint was removed or revoked, or now claims to be on another device than the
    ///   person saw.
    public func approve(_ endpoint: NewEndpoint) async throws(AccountError) {
        let account = ConnectedDevicesAccount(id: endpoint.accountID)
        guard await confirm(endpoint.id, on: endpoint.systemID, for: account) else {
            throw AccountError(.notFound, message: "the endpoint is no longer in the account, or not as it was shown")
        }
    }

    /// Refuses a new endpoint for a person, permanently: a signed revocation. This device rejects the endpoint from now on, also if this
    /// throws; see `revoke(_:for:)`.
    /// - Throws: `AccountError`: `notFound`, `networkNotAvailable`, `serviceFailed`, `unknown`.
    public func refuse(_ endpoint: NewEndpoint) async throws(AccountError) {
        try await revoke(endpoint.id, for: ConnectedDevicesAccount(id: endpoint.accountID))
    }

    /// The code that people compare on this device and on another one. If both show the same words, no third device is between them, and
    /// the endpoint may be confirmed (`confirm(_:for:)`).
    /// - Returns: `nil` if the account has no such endpoint, or this endpoint itself is not listed.
    public func verificationCode(with endpoint: EndpointID, for account: ConnectedDevicesAccount) -> VerificationCode? {
        guard let directory = directories.value[account.id], let other = directory[endpoint], !other.isLocal,
            let own = accounts.endpoint(of: account).flatMap({ directory[$0] })
        else { return nil }
        return VerificationCode(own.record, other.record)
    }
}

extension ConnectedDevicesAccountManager {
    /// The fingerprint words of this installation, to compare with those that another device shows for it; `nil` if the account is
    /// unknown.
    /// - Throws: `AccountError` with `storageFailed` if the device's key cannot be read.
    public func fingerprint(of account: ConnectedDevicesAccount) throws(AccountError) -> FingerprintWords? {
        guard let endpoint = endpoint(of: account) else { return nil }
        return FingerprintWords(endpoint: endpoint, system: try systemKeyID)
    }
}
