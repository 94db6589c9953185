// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// Devices, messages and outcomes are values of `RelayProtocol`; whoever uses the SDK has them too.
@_exported public import RelayProtocol
