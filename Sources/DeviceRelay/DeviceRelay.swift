// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// The values of the SDK's API that the service uses too: devices, messages, outcomes, links, limits. `RelayProtocol` is no product; its
// public declarations are exactly these, and everything about the wire is `package`.
@_exported public import RelayProtocol
