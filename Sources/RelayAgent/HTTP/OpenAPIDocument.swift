// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The description of the API that the agent serves. `Resources/openapi.yaml` is written by hand; a test compares it with the routes.
package enum OpenAPIDocument {
    package static let text = String(decoding: PackageResources.openapi_yaml, as: UTF8.self)
}
