// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A transaction of a store with one writer, which sees all rows. The relay sees it as one of the two kinds.
package protocol StoreTransaction: AccountTransaction, GlobalTransaction {
    /// Converts an error of a body for the submitter: a database error becomes a `StoreError`.
    func failure(_ error: any Error) -> any Error
}

extension StoreTransaction {
    package var global: any GlobalTransaction { self }
}
