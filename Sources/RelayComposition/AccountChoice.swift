// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayIssuer
import RelayProtocol
package import RelayServer

/// An account that an operator names by an id or by its name.
package protocol NamedAccount {
    /// Its id, as `relayd account list` prints it, and the subjects of its users at the embedded issuer.
    var accountIDs: [String] { get }
    var accountName: String? { get }
}

extension Sequence where Element: NamedAccount {
    /// The account that an operator's text means. The relay and all commands decide it here, so that a question is about the account that is
    /// then changed. An id takes precedence over the name of another account; a name that several accounts have means none of them.
    package func meant(by text: String) throws(AdminError) -> Element {
        if let account = first(where: { $0.accountIDs.contains { $0.utf8.elementsEqual(text.utf8) } }) { return account }
        let named =
            if let key = AccountName(text)?.key {
                filter { $0.accountName.flatMap(AccountName.init)?.key.utf8.elementsEqual(key.utf8) ?? false }
            } else {
                [Element]()
            }
        guard let account = named.first else { throw AdminError("there is no such account: see `relayd account list`") }
        guard named.count == 1 else {
            throw AdminError(
                "several accounts have this name: give one of the ids \(named.compactMap(\.accountIDs.first).joined(separator: ", "))"
            )
        }
        return account
    }
}

extension AccountRow: NamedAccount {
    package var accountIDs: [String] { [id.rawValue] + embeddedSubjects }
    package var accountName: String? { name }
}

extension AdminAccount: NamedAccount {
    package var accountIDs: [String] { [id] + identities.filter { $0.issuer == Composition.issuerKey }.map(\.subject) }
    package var accountName: String? { name }
}

extension IssuerUser: NamedAccount {
    package var accountIDs: [String] { [AccountID(of: Composition.identity(of: subject)).rawValue, subject] }
    package var accountName: String? { name }
}
